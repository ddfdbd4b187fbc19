"""Ways to follow a model: the clients of tidegate, and plain sockets that read server-sent events or lines.

A session follows one id at one server, from the version that its client holds. A client of tidegate connects
to that server again when it was killed; a session on a plain socket ends with its connection, and sees each
frame as it came.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from tests.client import node

from tidegate.client import Version, afollow, follow
from tidegate.models.canonical import digest
from tidegate.models.patch import apply

MODEL = "workflows"
LONGEST_WAIT = 0.3


@dataclass(frozen=True, slots=True)
class Held:
    """A version that a client holds."""

    token: str | None = None
    state: Any = None


Versions = AsyncIterator[Version]
Session = Callable[[str, str, Held], Versions]
"""Follows an id, at the server with this URL, from a version on."""


@asynccontextmanager
async def sessions() -> AsyncIterator[Mapping[str, Session]]:
    """All kinds of sessions by their names."""
    process = NodeProcess()
    await process.start()
    try:
        yield {
            "sync": of_thread,
            "async": of_asyncio,
            "typescript": process.follow,
            "sse": sse,
            "lines": lines,
        }
    finally:
        await process.end()


OF_TIDEGATE = frozenset({"sync", "async", "typescript"})


async def of_asyncio(url: str, id: str, held: Held) -> Versions:
    client = afollow(url, MODEL, id, token=held.token, state=held.state, longest_wait=LONGEST_WAIT)
    try:
        async for version in client.subscribe():
            yield version
    finally:
        client.close()


async def of_thread(url: str, id: str, held: Held) -> Versions:
    client = follow(url, MODEL, id, token=held.token, state=held.state, longest_wait=LONGEST_WAIT)
    loop, found = asyncio.get_running_loop(), asyncio.Queue[Version | Exception]()

    def read() -> None:
        try:
            for version in client.subscribe():
                loop.call_soon_threadsafe(found.put_nowait, version)
        except Exception as error:  # noqa: BLE001 - raised below
            loop.call_soon_threadsafe(found.put_nowait, error)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        async for version in _taken(found):
            yield version
    finally:
        client.close()
        await asyncio.shield(asyncio.to_thread(thread.join))


class NodeProcess:
    """One process of Node with all clients in TypeScript."""

    def __init__(self) -> None:
        self._found: dict[int, asyncio.Queue[Version | Exception]] = {}
        self._number = 0

    async def start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *node.command("sessions.mjs"), stdin=pipe, stdout=pipe, limit=16 << 20
        )
        self._reading = asyncio.create_task(self._read())

    async def follow(self, url: str, id: str, held: Held) -> Versions:
        self._number += 1
        number, found = self._number, asyncio.Queue[Version | Exception]()
        self._found[number] = found
        known = {} if held.token is None else {"token": held.token, "state": held.state}
        options = {**known, "longestWait": LONGEST_WAIT * 1000}
        self._send({"number": number, "url": url, "model": MODEL, "id": id, "options": options})
        try:
            async for version in _taken(found):
                yield version
        finally:
            del self._found[number]
            self._send({"number": number})

    def _send(self, value: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(value).encode() + b"\n")

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            one = json.loads(line)
            if (found := self._found.get(one["number"])) is None:
                continue  # it was sent before the session was closed
            if (error := one.get("error")) is not None:
                found.put_nowait(AssertionError(error))
            else:
                found.put_nowait(Version(one["token"], one["state"], one["gone"], one["kind"]))
        for found in self._found.values():
            found.put_nowait(AssertionError("Node has ended"))

    async def end(self) -> None:
        self._process.kill()
        await self._process.wait()
        await self._reading


async def _taken(found: asyncio.Queue[Version | Exception]) -> Versions:
    while True:
        one = await found.get()
        if isinstance(one, Exception):
            raise one
        yield one


async def sse(url: str, id: str, held: Held) -> Versions:
    async for block in _blocks(url, id, held.token, "text/event-stream", b"\n\n"):
        data = [line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")]
        if data:
            held, version = _after(held, json.loads(b"\n".join(data)))
            yield version


async def lines(url: str, id: str, held: Held) -> Versions:
    async for block in _blocks(url, id, held.token, "application/x-ndjson", b"\n"):
        if block.strip():
            held, version = _after(held, json.loads(block))
            yield version


def _after(held: Held, frame: dict[str, Any]) -> tuple[Held, Version]:
    """The version after a frame that came over a plain socket."""
    kind, state = frame["event"], frame.get("state")
    if kind == "patch":
        assert frame["from"] == held.token, "frames chain without a gap"
        state = apply(held.state, frame["patch"])
    if kind != "gone":
        assert frame["digest"] == digest(state)
    version = Version(frame["token"], state, kind == "gone", kind)
    return Held(version.token, state), version


async def _blocks(url: str, id: str, token: str | None, accept: str, end: bytes) -> AsyncIterator[bytes]:
    """The whole blocks of a stream; what is cut does not count."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=4 << 20)
    try:
        query = "" if token is None else f"?hash={token}"
        writer.write(
            f"GET /{MODEL}/{quote(id, safe='')}/events{query} HTTP/1.1\r\n"
            f"Host: {parts.netloc}\r\nAccept: {accept}\r\n\r\n".encode()
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        assert " 200 " in head.partition("\r\n")[0], head
        rest = b""
        while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
            chunk = await reader.readexactly(size + 2)
            *whole, rest = (rest + chunk[:-2]).split(end)
            for block in whole:
                yield block
    finally:
        writer.close()
