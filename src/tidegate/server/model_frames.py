"""Frames as bytes: encoded once for all streams that hold the same version."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec

from tidegate.errors import TidegateError
from tidegate.models.answer import Frame, Version
from tidegate.server.model_cache import ByteCache

CACHED_BYTES = 32 << 20
LARGE = 4 << 10
"""Frames of larger states are made in a thread: the digest takes about 0.5 ms for each KiB."""
THREADS = 2
RETRY_MS, NO_RETRY_MS = 1000, 600_000
"""A browser always reconnects: after a permanent error it waits."""
_json = msgspec.json.Encoder().encode


class Style(NamedTuple):
    """How frames are written."""

    sse: bool
    """As server-sent events; else as lines of JSON."""
    model: bool = False
    """With the name of the model: in a stream of many ids."""

    @property
    def media_type(self) -> str:
        return "text/event-stream" if self.sse else "application/x-ndjson"

    @property
    def preface(self) -> bytes:
        return b"retry: %d\n\n" % RETRY_MS if self.sse else b""

    @property
    def heartbeat(self) -> bytes:
        return b": still here\n\n" if self.sse else b"\n"

    @property
    def not_ready(self) -> bytes:
        return b": this server is still reading the log\n\n" if self.sse else b"\n"

    def failure(self, error: TidegateError) -> bytes:
        data = _json({"error": error.as_dict()})
        retry = RETRY_MS if error.retryable else NO_RETRY_MS
        return b"retry: %d\nevent: failure\ndata: %b\n\n" % (retry, data) if self.sse else data + b"\n"

    def frame(self, frame: Frame, model: str) -> bytes:
        data = _json(frame)
        if self.model:
            data = b'{"model":%b,%b' % (_json(model), data[1:])
        if not self.sse:
            return data + b"\n"
        # The id of one event cannot be the tokens of many ids.
        id = b"" if self.model else b"id: %b\n" % frame.token.encode()
        return b"%bevent: %b\ndata: %b\n\n" % (id, frame.kind.encode(), data)


class Encoded(NamedTuple):
    """A frame as bytes, and the token of the version to which it leads."""

    token: str
    body: bytes


class Frames:
    """Makes frames, for the event loop. Equal ones are made once: also while one is being made."""

    def __init__(self) -> None:
        self._cache: ByteCache[tuple[object, ...], Encoded] = ByteCache(CACHED_BYTES)
        self._making: dict[tuple[object, ...], asyncio.Future[Encoded]] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tidegate-frames")
        self.made = 0

    async def of(self, version: Version, source: tuple[str, str], token: str | None, style: Style) -> Encoded:
        """The frame that leads from a token to a version of a topic (`source`: topic and model)."""
        key = (*source, version.id, version.token, token, style)
        found = self._cache.get(key)
        if found is not None:
            return found

        def make() -> Encoded:
            return Encoded(version.token, style.frame(version.frame(token), source[1]))

        if len(version.row.state) <= LARGE:
            return self._keep(key, make())
        return await self._in_thread(key, make)

    async def _in_thread(self, key: tuple[object, ...], make: Callable[[], Encoded]) -> Encoded:
        pending = self._making.get(key)
        if pending is None:
            pending = asyncio.get_running_loop().run_in_executor(self._threads, make)
            self._making[key] = pending
            pending.add_done_callback(lambda done: self._made(key, done))
        return await asyncio.shield(pending)  # a stream that ends must not end it for the others

    def _made(self, key: tuple[object, ...], done: asyncio.Future[Encoded]) -> None:
        del self._making[key]
        if not done.cancelled() and done.exception() is None:
            self._keep(key, done.result())

    def _keep(self, key: tuple[object, ...], encoded: Encoded) -> Encoded:
        self.made += 1
        self._cache.put(key, encoded, len(encoded.body) + 1000)
        return encoded

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
