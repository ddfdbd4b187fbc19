"""One HTTP/1.1 request on asyncio streams: the body of the response is read as it arrives."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

from tidegate.client.base import CONNECT_SECONDS, PIECE
from tidegate.client.held import Unusable
from tidegate.client.requests import Request, Target

MOST_HEADERS = 100
LARGEST_RESPONSE = 1 << 20


class Response:
    """A response. Reading it may be cancelled at any time: nothing that arrived is lost."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, silence: float) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._reader = reader
        self._writer = writer
        self._silence = silence
        self._is_chunked = False
        self._left: int | None = None
        """Bytes of the body, or of this chunk, that are still to be read; None: unknown."""

    @classmethod
    async def of(cls, target: Target, request: Request, silence: float) -> Response:
        """Connect, send a request, and read the head of the response."""
        context = ssl.create_default_context() if target.is_tls else None
        async with asyncio.timeout(min(silence, CONNECT_SECONDS)):
            reader, writer = await asyncio.open_connection(target.host, target.port, ssl=context)
        found = cls(reader, writer, silence)
        try:
            writer.write(_encoded(target, request))
            async with asyncio.timeout(silence):
                await writer.drain()
                await found._read_head()
        except BaseException:
            found.close()
            raise
        return found

    async def read(self) -> bytes:
        """Wait for the next bytes of the body; none at its end."""
        async with asyncio.timeout(self._silence):
            if self._is_chunked:
                return await self._read_chunk()
            data = await self._reader.read(PIECE if self._left is None else min(self._left, PIECE))
            if self._left is not None:
                self._left -= len(data)
            return data

    async def read_all(self) -> bytes:
        found = bytearray()
        while len(found) <= LARGEST_RESPONSE and (data := await self.read()):
            found += data
        return bytes(found)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._writer.transport.abort()

    async def _read_head(self) -> None:
        first = (await self._line()).split(None, 2)
        if len(first) < 2 or not first[0].startswith(b"HTTP/1.") or not first[1].isdigit():
            raise Unusable("the response is not HTTP/1.1")
        self.status = int(first[1])
        while line := await self._line():
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.strip().lower()] = value.strip()
            if len(self.headers) > MOST_HEADERS:
                raise Unusable("the response has too many headers")
        self._is_chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        length = self.headers.get("content-length", "")
        if not self._is_chunked and length.isdigit():
            self._left = int(length)

    async def _read_chunk(self) -> bytes:
        if self._left == 0:
            await self._reader.readexactly(2)
            self._left = None
        if self._left is None:
            size = (await self._line()).split(b";")[0].strip()
            try:
                self._left = int(size, 16)
            except ValueError:
                raise Unusable("the response is not HTTP/1.1") from None
            if self._left == 0:
                self._is_chunked = False
                return b""
        data = await self._reader.read(min(self._left, PIECE))
        if not data:
            raise Unusable("the response was cut")
        self._left -= len(data)
        return data

    async def _line(self) -> bytes:
        try:
            found = await self._reader.readuntil(b"\n")
        except asyncio.LimitOverrunError:
            raise Unusable("the response has a line that is too long") from None
        return found.rstrip(b"\r\n")


def _encoded(target: Target, request: Request) -> bytes:
    headers = {"Host": _host(target), "Connection": "close", **request.headers}
    if request.body is not None:
        headers["Content-Length"] = str(len(request.body))
    lines = [
        f"{request.method} {request.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header must not have a line break")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (request.body or b"")


def _host(target: Target) -> str:
    name = f"[{target.host}]" if ":" in target.host else target.host
    return name if target.port == (443 if target.is_tls else 80) else f"{name}:{target.port}"
