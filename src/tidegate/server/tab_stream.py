"""The response of a tab: one connection that carries everything which the dashboard shows.

1 a line with the id of the stream; 2 wait for the first frame of the sampler; 3 the history and the newest
events; 4 the newest frame whenever there is one, then the keys that changed, then records. A client that
reads slowly gets fewer frames; one that takes nothing for a minute is disconnected.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from importlib.metadata import version

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tidegate.errors import TidegateError
from tidegate.server.connection import ABORT
from tidegate.server.errors import RequestError
from tidegate.server.sampler import FRAME_SECONDS
from tidegate.server.serving import Serving
from tidegate.server.tab import Tab
from tidegate.text.render import printable_json

NDJSON = "application/x-ndjson"
EVENT_STREAM = "text/event-stream"
ALLOWED_SECONDS = 5.0
QUIET_SECONDS = 15.0
STUCK_SECONDS = 60.0
PIECE = 64 << 10


class TabStream(Response):
    """Sends the stream of a tab until the client disconnects, and releases it however it ends."""

    def __init__(
        self,
        server: Serving,
        tab: Tab,
        allowed: Callable[[], bool],
        release: Callable[[], None],
        *,
        lines: bool,
    ) -> None:
        super().__init__(media_type=NDJSON if lines else EVENT_STREAM)
        del self.headers["content-length"]
        self.headers["X-Accel-Buffering"] = "no"  # else nginx collects frames before it sends them
        self._server = server
        self._tab = tab
        self._allowed = allowed
        self._release = release
        self._lines = lines
        self._holds = 0
        """The number of the frame that was sent last."""
        self._wrote_at = time.monotonic()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = self._server.tabs.add(self._tab)
        running = asyncio.create_task(self._run(name, send, scope["state"].get(ABORT)))
        others = [asyncio.create_task(self._tab.read()), asyncio.create_task(_disconnected(receive))]
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            done, _ = await asyncio.wait((running, *others), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (running, *others):
                task.cancel()
            self._server.tabs.remove(name)
            self._release()
            await self._tab.close()
        if running.done():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _run(self, name: str, send: Send, abort: Callable[[], None] | None) -> None:
        try:
            with self._server.sampler.listening(self._tab.listener):
                await self._send_all(name, send)
        except TidegateError as error:
            await self._write(send, msgspec.json.encode({"event": "failure", "error": error.as_dict()}))
        except TimeoutError:
            if abort is not None:
                abort()

    async def _send_all(self, name: str, send: Send) -> None:
        tab, sampler = self._tab, self._server.sampler
        hello = {
            "event": "hello",
            "stream": name,
            "version": version("tidegate"),
            "frame_ms": round(FRAME_SECONDS * 1000),
            "now": self._server.clock.now(),
        }
        await self._write(send, msgspec.json.encode(hello))
        checked_at = time.monotonic()
        while not self._server.streams.ending.is_set():
            if time.monotonic() - checked_at > ALLOWED_SECONDS:
                if not await tab.in_thread(self._allowed):
                    raise RequestError("no-token", "the token was removed", "use another one")
                checked_at = time.monotonic()
            tab.listener.wake.clear()
            frame = sampler.newest
            if frame is not None and frame.number != self._holds:
                await self._send_events(send)
                await self._write(send, frame.encoded(self._holds))
                self._holds = frame.number
                for line in await tab.changed_keys():
                    await self._write(send, line)
            for line in tab.take_records():
                await self._write(send, line)
            try:
                await asyncio.wait_for(tab.listener.wake.wait(), ALLOWED_SECONDS)
            except TimeoutError:
                if time.monotonic() - self._wrote_at > QUIET_SECONDS:
                    await self._write(send, b"")

    async def _send_events(self, send: Send) -> None:
        """Before the first frame the history and the newest events, later those since the last frame."""
        sampler = self._server.sampler
        if not self._holds:
            await self._write(send, await self._tab.in_thread(sampler.history))
        events = sampler.events(self._holds or None)
        if events or not self._holds:
            await self._write(send, msgspec.json.encode({"event": "events", "events": events}))

    async def _write(self, send: Send, line: bytes) -> None:
        """Send a line. An empty one keeps the connection open."""
        body = self._encoded(line)
        for start in range(0, len(body), PIECE):
            async with asyncio.timeout(STUCK_SECONDS):
                await send(
                    {"type": "http.response.body", "body": body[start : start + PIECE], "more_body": True}
                )
        self._wrote_at = time.monotonic()

    def _encoded(self, line: bytes) -> bytes:
        if self._lines:
            return line + b"\n"
        if not line:
            return b": still here\n\n"
        name = line[len(b'{"event":"') : line.index(b'"', len(b'{"event":"'))].decode()
        return f"event: {name}\ndata: {printable_json(line.decode())}\n\n".encode()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
