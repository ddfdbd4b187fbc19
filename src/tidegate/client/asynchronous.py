"""The client for asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from tidegate.client.base import ATTEMPTS, Followed, back_off, is_temporary, unreachable
from tidegate.client.held import Lines, Unusable, Version
from tidegate.client.http1 import Response
from tidegate.client.requests import Request, Written, check_stream, written

T = TypeVar("T")


class AsyncModelClient(Followed):
    """Follows one id of a model. Several tasks may use it: one that waits for a version reads for all.

    A wait may be cancelled at any time. The step that it waited for goes on, and the next wait continues with
    it: connecting, or waiting before the next attempt, does not start over.
    """

    def _prepare(self) -> None:
        self._reading = asyncio.Lock()
        self._is_closed = False
        self._step: asyncio.Task[None] | None = None
        self._response: Response | None = None
        self._lines = Lines()
        self._ready: deque[bytes] = deque()

    async def __aenter__(self) -> Self:
        """Wait for the first frame."""
        await self._next(None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> AsyncIterator[Any]:
        """States: the current one, then each later one. Whoever is slow gets the newest only."""
        return _Subscription(self._next, lambda version: version.state)

    def subscribe(self) -> AsyncIterator[Version]:
        """The same as versions, with token, and `gone`."""
        return _Subscription(self._next, lambda version: version)

    def close(self) -> None:
        """End the connection, and all iterations."""
        self._is_closed = True
        if self._step is not None:
            self._step.cancel()
        self._disconnect()

    async def append(self, diff: Any, expect: str | None = None) -> Written:
        """Append a diff. With `expect` only if that is the token of the current version, else ClientError
        `other-version`, with the current token."""
        return await self._write(self._target.append(diff, expect))

    async def create(self, diff: Any = None) -> Written:
        """Create the id, with or without a first diff."""
        return await self._write(self._target.create(diff))

    async def delete(self, expect: str | None = None) -> Written:
        """Delete the id."""
        return await self._write(self._target.delete(expect))

    async def _next(self, seen: Version | None) -> Version | None:
        """Wait for another version than this one; None when the client is closed."""
        async with self._reading:
            while not self._is_closed:
                if self._held.is_current and self.version is not seen:
                    return self.version
                await self._finish_step()
        return None

    async def _finish_step(self) -> None:
        """Wait for the end of a step; begins one if there is none. Being cancelled does not cancel it."""
        if self._step is None:
            self._step = asyncio.create_task(self._take_one())
        await asyncio.wait([self._step])
        step, self._step = self._step, None
        if not step.cancelled():
            step.result()

    async def _take_one(self) -> None:
        """Take one line, or wait before the next attempt."""
        try:
            changed = self._receive(await self._line())
        except Exception as error:  # noqa: BLE001 - raised by _failed, unless it is temporary
            self._disconnect()
            await asyncio.sleep(self._failed(error))
        else:
            self._save(changed)

    async def _line(self) -> bytes:
        """Wait for the next line that is not empty."""
        if self._response is None:
            await self._connect()
        while not self._ready:
            data = b"" if self._response is None else await self._response.read()
            if not data:
                raise Unusable("the server ended the stream")
            self._ready.extend(self._lines.feed(data))
        return self._ready.popleft()

    async def _connect(self) -> None:
        found = await Response.of(self._target, self._target.events(self._held.asked), self._silence)
        try:
            body = b"" if found.status == 200 else await found.read_all()
            check_stream(found.status, found.headers, body)
        except BaseException:
            found.close()
            raise
        self._response, self._lines = found, Lines()
        self._ready.clear()

    def _disconnect(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None

    async def _write(self, request: Request) -> Written:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                response = await Response.of(self._target, request, self._silence)
                try:
                    return written(response.status, await response.read_all())
                finally:
                    response.close()
            except Exception as error:
                if not is_temporary(error):
                    raise
                if attempt == ATTEMPTS:
                    raise unreachable(error) from error
            await asyncio.sleep(back_off(attempt, self._longest_wait))
        raise AssertionError("unreachable")


class _Subscription(Generic[T]):
    """An iterator that several tasks may share, and that goes on after it was cancelled."""

    def __init__(
        self, next_one: Callable[[Version | None], Awaitable[Version | None]], part: Callable[[Version], T]
    ) -> None:
        self._next_one = next_one
        self._part = part
        self._seen: Version | None = None
        self._lock = asyncio.Lock()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        async with self._lock:
            found = await self._next_one(self._seen)
            if found is None:
                raise StopAsyncIteration
            self._seen = found
        return self._part(found)
