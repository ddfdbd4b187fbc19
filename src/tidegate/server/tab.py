"""What one tab of the dashboard follows besides the summary: records of topics, and keys of gates.

The records of all topics come from one reader. One chunk of them waits to be sent; the next is read when it
was taken, so a client that reads slowly makes the reader wait, and the log keeps the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import msgspec

from tidegate.errors import TidegateError
from tidegate.log.merged import LocatedRow
from tidegate.server.key_view import key_as_json
from tidegate.server.position import to_text
from tidegate.server.record_feed import Polled, RecordFeed, Selection
from tidegate.server.record_view import RecordView
from tidegate.server.sampler import Listener
from tidegate.text.render import ValueKind
from tidegate.topology.manifest import Manifest
from tidegate.types import TopicPartition

if TYPE_CHECKING:
    from tidegate.server.serving import Serving

POLL_SECONDS = 0.25
LIMITED_SECONDS = 0.1
"""The pause between two polls of topics with a limit: fewer and larger polls."""
RECORDS_PER_LINE = 500
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FollowedTopic:
    """A topic that a tab follows, and from where."""

    topic: str
    name: str | None
    """What the client calls it."""
    selection: Selection
    view: RecordView
    positions: Mapping[TopicPartition, int]

    def continues(self, before: FollowedTopic | None) -> bool:
        """Whether it is the same as before, from another position at most."""
        return before is not None and replace(before, positions=self.positions) == self


@dataclass(frozen=True, slots=True)
class FollowedKey:
    """A key of a gate that a tab follows."""

    manifest: Manifest = field(compare=False)
    app: str
    gate: str
    key: bytes
    kind: ValueKind | None


class Tab:
    """One stream. Used by the event loop; what reads runs in threads of the streams."""

    def __init__(self, server: Serving, token: str) -> None:
        self.token = token
        """The hash of the token that opened it."""
        self.listener = Listener(asyncio.get_running_loop())
        self._server = server
        self._topics: dict[str, FollowedTopic] = {}
        self._at: dict[TopicPartition, int] = {}
        self._feed: RecordFeed | None = None
        self._polling = asyncio.Lock()
        self._followed = asyncio.Event()
        self._taken = asyncio.Event()
        self._pending: list[bytes] = []
        self._keys: list[FollowedKey] = []
        self._shown_keys: dict[FollowedKey, bytes] = {}

    async def follow(self, topics: list[FollowedTopic], keys: list[FollowedKey]) -> None:
        """Replace what is followed. A topic with the same name and selection goes on where it is."""
        async with self._polling:
            at: dict[TopicPartition, int] = {}
            for one in topics:
                same = one.continues(self._topics.get(one.topic))
                for partition, offset in one.positions.items():
                    at[partition] = self._at.get(partition, offset) if same else offset
            feed = None
            if topics:
                feed = RecordFeed(self._server.log, at, {one.topic: one.selection for one in topics})
                await self.in_thread(feed.open)
            await self._replace(feed)
            self._topics = {one.topic: one for one in topics}
            self._at, self._keys = at, keys
            self._shown_keys = {key: shown for key, shown in self._shown_keys.items() if key in keys}
            self._followed.set()
        self.listener.wake.set()

    async def read(self) -> None:
        """Read records until the task is cancelled."""
        while True:
            async with self._polling:
                feed = self._feed
                if feed is not None:
                    await self._poll(feed)
            if feed is None:
                self._followed.clear()
                await self._followed.wait()
            elif self._pending:
                self.listener.wake.set()
                self._taken.clear()
                await self._taken.wait()
                if feed.is_limited:
                    await asyncio.sleep(LIMITED_SECONDS)

    def take_records(self) -> list[bytes]:
        """Return the lines that wait, and let the next records be read."""
        lines, self._pending = self._pending, []
        self._taken.set()
        return lines

    async def changed_keys(self) -> list[bytes]:
        """Return a line for each followed key that changed since it was last returned."""
        return await self.in_thread(self._changed_keys) if self._keys else []

    async def close(self) -> None:
        """Close the reader."""
        await self._replace(None)

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run a call that reads, in a thread of the streams."""
        return await asyncio.get_running_loop().run_in_executor(self._server.streams.readers, call)

    async def _replace(self, feed: RecordFeed | None) -> None:
        before, self._feed = self._feed, feed
        if before is not None:
            with suppress(RuntimeError):  # the server stops, and its readers are closed with the log
                await self.in_thread(before.close)

    async def _poll(self, feed: RecordFeed) -> None:
        """Read once. An error ends what is followed, and not the stream: a topic may have been deleted."""
        try:
            polled = await self.in_thread(lambda: feed.poll(POLL_SECONDS))
            self._pending = self._lines(polled)
        except TidegateError as error:
            failure = {"event": "failure", "topics": list(self._topics), "error": error.as_dict()}
            self._pending = [msgspec.json.encode(failure)]
            self._topics = {}
            await self._replace(None)

    def _lines(self, polled: Polled) -> list[bytes]:
        by_topic: dict[str, list[LocatedRow]] = {topic: [] for topic in polled.skipped}
        for located in polled.rows:
            by_topic.setdefault(located[0].topic, []).append(located)
        lines = []
        for topic, rows in by_topic.items():
            skipped = polled.skipped[topic]
            for start in range(0, max(1, len(rows)), RECORDS_PER_LINE):
                part = rows[start : start + RECORDS_PER_LINE]
                for partition, row in part:
                    self._at[partition] = row.offset + 1
                if start + RECORDS_PER_LINE >= len(rows):
                    self._at |= {one: at for one, at in polled.next.items() if one.topic == topic}
                lines.append(self._line(topic, part, skipped))
                skipped = 0
        self._at |= polled.next
        return lines

    def _line(self, topic: str, rows: list[LocatedRow], skipped: int) -> bytes:
        followed = self._topics[topic]
        view = followed.view
        return msgspec.json.encode(
            {
                "event": "records",
                "topic": topic,
                "name": followed.name,
                "id": to_text({one: at for one, at in self._at.items() if one.topic == topic}),
                "records": [view.record(one) for one in rows],
                "skipped": skipped,
            }
        )

    def _changed_keys(self) -> list[bytes]:
        lines = []
        for one in self._keys:
            try:
                with self._server.gate(one.manifest, one.gate, {}, seconds=0.0) as (gate, snapshots):
                    state = gate.key(one.key)
                    position = snapshots.position(gate.commander.partition_of(one.key))
            except TidegateError:
                continue  # the summary shows the trouble of the gate
            shown = key_as_json(one.gate, state, one.kind)
            encoded = msgspec.json.encode(shown)
            if self._shown_keys.get(one) != encoded:
                self._shown_keys[one] = encoded
                line = {"event": "key", "app": one.app, "gate": one.gate, **shown}
                lines.append(msgspec.json.encode({**line, "position": to_text(position)}))
        return lines
