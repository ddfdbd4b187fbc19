"""The response of a model stream: frames to one client, as fast as it reads, at most ten a second per id.

The server holds no more for a client than what its transport has not sent yet: 64 KiB before writes wait, and
one piece. A frame that is larger is shared by all who get it. A client that takes nothing for a minute is
disconnected.
"""

from __future__ import annotations

import asyncio
import time

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tidegate.errors import TidegateError
from tidegate.server.connection import ABORT
from tidegate.server.model_cursors import Stream
from tidegate.server.model_hub import Hub

PIECE = 64 << 10
"""A transport takes a piece whole, however little of it the client reads."""
PACE_SECONDS = 0.1


class ModelStreamResponse(Response):
    """Sends the frames of an open stream; closes it however it ends."""

    def __init__(self, hub: Hub, stream: Stream, *, live: bool) -> None:
        super().__init__(media_type=stream.style.media_type)
        del self.headers["content-length"]
        self.headers["X-Accel-Buffering"] = "no"  # else nginx collects frames before it sends them
        self._hub = hub
        self._stream = stream
        self._live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stream = self._stream
        stream.abort = scope["state"].get(ABORT, stream.end)
        listening = asyncio.create_task(_until_disconnected(receive, stream))
        try:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            await self._run(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except ClientDisconnect:
            pass
        finally:
            listening.cancel()
            self._hub.forget(stream)

    async def _run(self, send: Send) -> None:
        stream, style = self._stream, self._stream.style
        try:
            await self._write(send, style.preface)
            await self._send_changed(send)
            if any(cursor.is_first for cursor in stream.cursors):
                await self._write(send, style.not_ready)
            while not stream.is_ended:
                stream.wake.clear()
                if await self._send_changed(send):
                    await asyncio.sleep(PACE_SECONDS)
                    continue
                if not self._live and not any(cursor.is_first for cursor in stream.cursors):
                    return
                if stream.heartbeat_due:
                    await self._write(send, style.heartbeat)
                if not stream.changed:
                    await stream.wake.wait()
        except TidegateError as error:
            stream.end(error)
        if stream.failure is not None:
            await self._write(send, style.failure(stream.failure))

    async def _send_changed(self, send: Send) -> bool:
        """Send one frame for each changed id, small ones together. Returns whether one of them was not the
        first of its id: then the next ones are paced."""
        stream = self._stream
        body, paced = bytearray(), False
        for cursor in stream.take_changed():
            if stream.is_ended:
                break
            frame = await self._hub.next(cursor)
            if frame is None:
                continue
            paced = paced or not cursor.is_first
            self._hub.sent(cursor, frame.token)
            if body and len(body) + len(frame.body) > PIECE:
                await self._write(send, bytes(body))
                body.clear()
            if len(frame.body) >= PIECE:
                await self._write(send, frame.body)
            else:
                body += frame.body
        if body:
            await self._write(send, bytes(body))
        return paced

    async def _write(self, send: Send, body: bytes) -> None:
        stream = self._stream
        stream.heartbeat_due = False
        for start in range(0, len(body), PIECE):
            stream.writing_since = time.monotonic()
            await send({"type": "http.response.body", "body": body[start : start + PIECE], "more_body": True})
            if stream.is_gone:
                raise ClientDisconnect
        stream.writing_since, stream.wrote_at = None, time.monotonic()


async def _until_disconnected(receive: Receive, stream: Stream) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.is_gone = True
    stream.end()
