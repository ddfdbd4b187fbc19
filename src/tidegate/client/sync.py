"""The client for threads, on http.client."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from tidegate.client.base import (
    ATTEMPTS,
    CONNECT_SECONDS,
    PIECE,
    Followed,
    back_off,
    is_temporary,
    unreachable,
)
from tidegate.client.held import Lines, Unusable, Version
from tidegate.client.requests import Request, Target, Written, check_stream, written

T = TypeVar("T")


class ModelClient(Followed):
    """Follows one id of a model. Several threads may use it: one that waits for a version reads for all."""

    def __enter__(self) -> Self:
        """Wait for the first frame."""
        next(self.subscribe(), None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        """States: the current one, then each later one. Whoever is slow gets the newest only."""
        return _Subscription(self._next, lambda version: version.state)

    def subscribe(self) -> Iterator[Version]:
        """The same as versions, with token, and `gone`."""
        return _Subscription(self._next, lambda version: version)

    def close(self) -> None:
        """End the connection, and all iterations. May be called from another thread."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
            if not self._has_reader:
                self._disconnect()
            elif (stream := self._stream) is not None:
                stream.interrupt()

    def append(self, diff: Any, expect: str | None = None) -> Written:
        """Append a diff. With `expect` only if that is the token of the current version, else ClientError
        `other-version`, with the current token."""
        return self._write(self._target.append(diff, expect))

    def create(self, diff: Any = None) -> Written:
        """Create the id, with or without a first diff."""
        return self._write(self._target.create(diff))

    def delete(self, expect: str | None = None) -> Written:
        """Delete the id."""
        return self._write(self._target.delete(expect))

    def _prepare(self) -> None:
        self._changed = threading.Condition()
        self._has_reader = False
        self._closed = threading.Event()
        self._stream: _Stream | None = None

    def _next(self, seen: Version | None) -> Version | None:
        """Wait for another version than this one; None when the client is closed."""
        while True:
            with self._changed:
                while not self._closed.is_set() and not self._is_new(seen) and self._has_reader:
                    self._changed.wait()
                if self._closed.is_set():
                    return None
                if self._is_new(seen):
                    return self.version
                self._has_reader = True
            try:
                self._step()
            finally:
                with self._changed:
                    self._has_reader = False
                    self._changed.notify_all()
                    if self._closed.is_set():
                        self._disconnect()

    def _is_new(self, seen: Version | None) -> bool:
        return self._held.is_current and self.version is not seen

    def _step(self) -> None:
        """Take one line, or wait before the next attempt."""
        try:
            if self._stream is None:
                self._stream = _Stream(self._target, self._silence, self._closed)
                self._stream.open(self._held.asked)
            changed = self._receive(self._stream.line())
        except Exception as error:  # noqa: BLE001 - raised by _failed, unless it is temporary
            self._disconnect()
            if not self._closed.is_set():
                self._closed.wait(self._failed(error))
        else:
            self._save(changed)

    def _disconnect(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _write(self, request: Request) -> Written:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with contextlib.closing(_Connection(self._target, self._silence)) as connection:
                    response = connection.send(request)
                    return written(response.status, response.read())
            except Exception as error:
                if not is_temporary(error):
                    raise
                if attempt == ATTEMPTS:
                    raise unreachable(error) from error
            time.sleep(back_off(attempt, self._longest_wait))
        raise AssertionError("unreachable")


class _Subscription(Generic[T]):
    """An iterator that several threads may share."""

    def __init__(
        self, next_one: Callable[[Version | None], Version | None], part: Callable[[Version], T]
    ) -> None:
        self._next_one = next_one
        self._part = part
        self._seen: Version | None = None
        self._lock = threading.Lock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        with self._lock:
            found = self._next_one(self._seen)
            if found is None:
                raise StopIteration
            self._seen = found
        return self._part(found)


class _Connection:
    """One connection, for one request."""

    def __init__(self, target: Target, silence: float) -> None:
        kind = HTTPSConnection if target.is_tls else HTTPConnection
        self._http = kind(target.host, target.port, timeout=min(silence, CONNECT_SECONDS))
        self._http.connect()
        self.socket: socket.socket = self._http.sock
        self.socket.settimeout(silence)

    def send(self, request: Request) -> HTTPResponse:
        self._http.request(request.method, request.path, request.body, request.headers)
        return self._http.getresponse()

    def close(self) -> None:
        self._http.close()
        self.socket.close()


class _Stream:
    """A stream of frames."""

    def __init__(self, target: Target, silence: float, closed: threading.Event) -> None:
        self._target = target
        self._silence = silence
        self._closed = closed
        self._lines = Lines()
        self._ready: deque[bytes] = deque()
        self._connection: _Connection | None = None
        self._response: HTTPResponse | None = None

    def open(self, token: str | None) -> None:
        """Connect and send the request. `interrupt` ends all of it but the connecting."""
        self._connection = _Connection(self._target, self._silence)
        if self._closed.is_set():
            raise Unusable("the client was closed")
        response = self._response = self._connection.send(self._target.events(token))
        headers = {name.lower(): value for name, value in response.getheaders()}
        check_stream(response.status, headers, b"" if response.status == 200 else response.read(PIECE))

    def line(self) -> bytes:
        """Wait for the next line that is not empty."""
        while not self._ready:
            data = self._response.read1(PIECE) if self._response is not None else b""
            if not data:
                raise Unusable("the server ended the stream")
            self._ready.extend(self._lines.feed(data))
        return self._ready.popleft()

    def interrupt(self) -> None:
        """End what waits for the server in another thread."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
        if self._connection is not None:
            self._connection.close()
