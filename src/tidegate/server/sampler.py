"""The sampler: one thread of a server that takes the frames which all open dashboards show.

    resting ── a stream opens ──> sampling, twice a second ── nobody listens for a minute ──> resting

A frame is encoded once for all streams. A stream sends the newest one when its client is ready, so a slow
client gets fewer. When a sample takes long, the next ones are taken less often: the thread is busy at most
half of the time. While it rests, nothing is sampled, and the history has a hole.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tidegate.clock import Clock
from tidegate.errors import TidegateError
from tidegate.server.app_events import AppEvent
from tidegate.server.summary import Sample
from tidegate.server.summary_history import SummaryHistory

log = logging.getLogger("tidegate.server")

FRAME_SECONDS = 0.5
REST_SECONDS = 60.0
BUSY_SHARE = 0.5
FIRST_EVENTS = 100
MOST_EVENTS = 1_000


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame, encoded."""

    number: int
    at: int
    body: bytes
    """The content as JSON, without number and time."""
    is_same: bool
    """Whether the content is that of the frame before."""

    def encoded(self, holds: int) -> bytes:
        """Return the frame for a client that holds the frame of this number."""
        if self.is_same and holds == self.number - 1:
            return b'{"event":"same","n":%d,"at":%d}' % (self.number, self.at)
        return b'{"event":"frame","n":%d,"at":%d,%b' % (self.number, self.at, self.body[1:])


@dataclass(eq=False, slots=True)
class Listener:
    """One stream that waits for frames."""

    loop: asyncio.AbstractEventLoop
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def notify(self) -> None:
        """Wake the stream, from any thread."""
        with suppress(RuntimeError):  # the loop has ended, and the stream with it
            self.loop.call_soon_threadsafe(self.wake.set)


class Sampler:
    """Frames, history and events, shared by all streams."""

    def __init__(self, sample: Callable[[], Sample], clock: Clock) -> None:
        self._sample = sample
        self._clock = clock
        self._changed = threading.Condition()
        self._listeners: set[Listener] = set()
        self._ended = False
        self._thread: threading.Thread | None = None
        self._history = SummaryHistory()
        self._newest: Frame | None = None
        self._events: deque[tuple[int, AppEvent]] = deque(maxlen=MOST_EVENTS)
        """Events with the number of the frame with which they came."""
        self._seen: set[tuple[str, str]] = set()
        self._rates: dict[str, float] = {}
        self._count = 0

    @property
    def newest(self) -> Frame | None:
        """The newest frame; None before the first."""
        return self._newest

    @property
    def is_sampling(self) -> bool:
        return self._thread is not None

    @contextmanager
    def listening(self, listener: Listener) -> Iterator[None]:
        """Sample while the block runs. After a rest, the newest frame is dropped first: it is old."""
        with self._changed:
            self._listeners.add(listener)
            if self._thread is None and not self._ended:
                self._newest = None
                self._thread = threading.Thread(target=self._work, name="tidegate-sampler", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._listeners.discard(listener)
                self._changed.notify_all()

    def history(self) -> bytes:
        """Return the history as JSON."""
        with self._changed:
            found: dict[str, Any] = {"event": "history", **self._history.as_json()}
        return msgspec.json.encode(found)

    def events(self, after: int | None) -> list[AppEvent]:
        """Return the events that came with frames after this number; without one, the newest."""
        with self._changed:
            if after is None:
                return [event for _, event in self._events][-FIRST_EVENTS:]
            return [event for number, event in self._events if number > after]

    def rate_of(self, topic: str) -> float | None:
        """Return the rate of a topic in the newest frame; None while nothing is sampled."""
        return self._rates.get(topic) if self.is_sampling else None

    def end(self) -> None:
        """Let the thread end, without waiting for it. May be called again."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
            for one in self._listeners:
                one.notify()

    def close(self) -> None:
        """End, and wait for the thread."""
        self.end()
        if (thread := self._thread) is not None:
            thread.join()

    def _work(self) -> None:
        heard = time.monotonic()
        while True:
            began = time.monotonic()
            self._take()
            busy = time.monotonic() - began
            pause = max(FRAME_SECONDS - busy, busy * (1 / BUSY_SHARE - 1))
            with self._changed:
                self._changed.wait_for(lambda: self._ended, pause)
                if self._listeners:
                    heard = time.monotonic()
                if self._ended or time.monotonic() - heard > REST_SECONDS:
                    self._thread = None
                    return

    def _take(self) -> None:
        """Take a sample and wake all streams. A failure is shown in place of the sample."""
        try:
            sample = self._sample()
        except Exception as error:  # noqa: BLE001 - shown to all; the thread must go on
            sample = _failed(error)
        body = msgspec.json.encode(sample.content)
        with self._changed:
            now, before = self._clock.now(), self._newest
            self._count = number = self._count + 1
            self._rates = {
                name[1]: rate or 0.0 for name, rate in sample.series.items() if name[0] == "topics"
            }
            if self._history.is_due(now):
                self._history.take(now, sample.series)
            self._add_events(number, sample.events)
            self._newest = Frame(number, now, body, before is not None and before.body == body)
            for one in self._listeners:
                one.notify()

    def _add_events(self, number: int, events: list[AppEvent]) -> None:
        for event in events:
            if (event.app, event.id) not in self._seen:
                self._events.append((number, event))
        self._seen = {(event.app, event.id) for event in events} or self._seen


def _failed(error: Exception) -> Sample:
    """What is shown in place of a sample."""
    if isinstance(error, TidegateError):
        trouble = f"{error.code}: {error.message}"
    else:
        log.error("the sampler failed", exc_info=error)
        trouble = "internal: the sampler failed; the log of the server has the cause"
    return Sample({"server": {"streams": 0, "trouble": [trouble], "topics_left_out": 0}}, [], {})
