"""Clients of a model that connect, drop, change the server and come back, and check each frame they get.

They speak HTTP on plain sockets, so that a cut connection is seen as it is: a frame counts if it came whole.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import quote, urlsplit

from tidegate.models.canonical import digest
from tidegate.models.patch import apply

LAST_SECONDS = 60.0
"""How long a client may take to see the last version."""


@dataclass(slots=True)
class Held:
    """A version that a client holds, or held."""

    token: str | None = None
    state: Any = None


@dataclass(slots=True)
class Counts:
    """What happened to all clients together."""

    connections: int = 0
    frames: int = 0
    patches: int = 0
    refused: int = 0
    resets: list[str] = field(default_factory=list)
    """Frames that replaced the state of a client that held a version of the same life."""


class FleetClient:
    """One client of one id."""

    def __init__(self, id: str, servers: Sequence[str], counts: Counts, seed: int, *, sse: bool) -> None:
        self._id = id
        self._servers = servers
        self._counts = counts
        self._random = Random(seed)
        self._sse = sse
        self.held = Held()
        self._earlier: list[Held] = []

    async def run(self, ending: asyncio.Event, last: asyncio.Future[str]) -> None:
        """Connect again and again until `ending` is set; then until the last version was seen."""
        deadline: float | None = None
        while not (last.done() and self.held.token == last.result()):
            if ending.is_set():
                deadline = deadline or asyncio.get_running_loop().time() + LAST_SECONDS
                assert asyncio.get_running_loop().time() < deadline, f"{self._id}: still {self.held.token}"
            elif self._earlier and self._random.random() < 0.3:
                self.held = self._random.choice(self._earlier)  # comes back after a long time
            try:
                async with asyncio.timeout(self._random.uniform(0.1, 2.0)):
                    await self._follow(self._random.choice(self._servers))
            except (TimeoutError, OSError, asyncio.IncompleteReadError, EOFError):
                await asyncio.sleep(self._random.uniform(0.0, 0.2))

    async def _follow(self, url: str) -> None:
        """Until the connection ends; or change the server right after a frame, which others may not have read
        yet."""
        async for frame in self._frames(url):
            self._check(frame)
            if self._random.random() < 0.2:
                return

    def _check(self, frame: dict[str, Any]) -> None:
        counts, before = self._counts, self.held
        counts.frames += 1
        if frame["event"] == "patch":
            assert frame["from"] == before.token, "frames chain without a gap"
            counts.patches += 1
            state = apply(before.state, frame["patch"])
        else:
            state = frame.get("state")
            if before.token and _life(before.token) == _life(frame["token"]) and frame["event"] == "state":
                counts.resets.append(f"{self._id}: {before.token} -> {frame['token']}")
        if frame["event"] != "gone":
            assert frame["digest"] == digest(state)
        self.held = Held(frame["token"], state)
        if self._random.random() < 0.2:
            self._earlier.append(self.held)

    async def _frames(self, url: str) -> AsyncIterator[dict[str, Any]]:
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=4 << 20)
        try:
            token = "" if self.held.token is None else f"?hash={self.held.token}"
            accept = "text/event-stream" if self._sse else "application/x-ndjson"
            writer.write(
                f"GET /workflows/{quote(self._id, safe='')}/events{token} HTTP/1.1\r\n"
                f"Host: {parts.netloc}\r\nAccept: {accept}\r\n\r\n".encode()
            )
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            if " 200 " not in head.partition("\r\n")[0]:
                self._counts.refused += 1
                raise EOFError(head)
            self._counts.connections += 1
            async for block in _blocks(reader, b"\n\n" if self._sse else b"\n"):
                data = _data(block) if self._sse else block.strip()
                if data:
                    yield json.loads(data)
        finally:
            writer.close()


async def _blocks(reader: asyncio.StreamReader, end: bytes) -> AsyncIterator[bytes]:
    """The whole blocks of a chunked response."""
    rest = b""
    while True:
        size = int((await reader.readuntil(b"\r\n")).strip(), 16)
        chunk = await reader.readexactly(size + 2)
        if not size:
            raise EOFError
        *whole, rest = (rest + chunk[:-2]).split(end)
        for block in whole:
            yield block


def _data(block: bytes) -> bytes:
    lines = [line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)


def _life(token: str) -> str:
    return token.partition("-")[0]
