"""A server on a real socket that sends what a test prescribes: one response after the other."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from tidegate.models.answer import Frame, answer
from tidegate.models.document import Documents
from tidegate.models.fold import Fold
from tidegate.models.row import NEVER, ModelRow

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
ID = "w/1"


def merged(state: dict[str, Any], diff: dict[str, Any]) -> dict[str, Any] | None:
    """The reducer of the tests. A diff without keys removes the id."""
    return {key: value for key, value in {**state, **diff}.items() if value is not None} if diff else None


FOLD = Fold(Documents(dict, 1 << 20), dict, merged, None, dict)


def rows(*diffs: dict[str, Any], row: ModelRow = NEVER) -> list[ModelRow]:
    """The versions of an id."""
    found = []
    for diff in diffs:
        row = FOLD.apply(row, diff).row
        found.append(row)
    return found


def frame(row: ModelRow, before: ModelRow | None = None) -> bytes:
    """The line for a client that holds this version."""
    found = answer(ID, row, None if before is None else before.token(ID), at_end=True)
    assert found is not None
    return line(found)


def line(frame: Frame) -> bytes:
    return msgspec.json.encode(frame) + b"\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass(frozen=True, slots=True)
class Response:
    """Raw bytes, with pauses between them, and what happens then."""

    parts: tuple[bytes, ...]
    hold: bool = False
    """Keep the connection open until the client closes it."""
    pause: float = 0.0


def stream(*lines: bytes, hold: bool = False, pause: float = 0.0) -> Response:
    """A stream of frames; it ends as it should, or stays open."""
    return Response((HEAD, *map(chunk, lines), *([] if hold else [END])), hold, pause)


def cut(frame: bytes, size: int) -> Response:
    """A stream that is cut after so many bytes of a frame."""
    return Response((HEAD, chunk(frame)[: len(b"%x\r\n" % len(frame)) + size]))


def refusal(status: int, code: str, **more: Any) -> Response:
    error = {"code": code, "message": "m", "hint": "h", "retryable": False}
    return json_response(status, {"error": error, **more})


def json_response(status: int, value: Any, content_type: str = "application/json") -> Response:
    body = msgspec.json.encode(value)
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return Response((head.encode(), body))


@dataclass(slots=True)
class Scripted:
    """The requests that were received."""

    url: str
    requests: list[bytes] = field(default_factory=list)

    @property
    def hashes(self) -> list[str | None]:
        """The token of each request for a stream."""
        return [_hash(one) for one in self.requests]

    def header(self, name: str) -> list[str | None]:
        """A header of each request."""
        return [_header(one, name.lower()) for one in self.requests]


def _header(request: bytes, name: str) -> str | None:
    for one in request.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]:
        key, _, value = one.partition(":")
        if key.lower() == name:
            return value.strip()
    return None


def _hash(request: bytes) -> str | None:
    method, path, _ = request.split(b"\r\n", 1)[0].decode().split(" ")
    parts = urlsplit(path)
    assert (method, parts.path) == ("GET", "/flows/w%2F1/events")
    return parse_qs(parts.query).get("hash", [None])[0]


@contextmanager
def scripted(responses: Iterable[Response]) -> Iterator[Scripted]:
    """Send one response for each request. When there are no more, connections are closed."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = Scripted(f"http://127.0.0.1:{server.getsockname()[1]}")
        ended = threading.Event()
        thread = threading.Thread(target=_serve, args=(server, iter(responses), found, ended))
        thread.start()
        try:
            yield found
        finally:
            ended.set()
            with socket.create_connection(server.getsockname()):
                pass
            thread.join()


def _serve(
    server: socket.socket, responses: Iterator[Response], found: Scripted, ended: threading.Event
) -> None:
    """A thread for each connection: Node opens some before it has a request for them."""
    threads = []
    while True:
        connection, _ = server.accept()
        if ended.is_set():
            connection.close()
            break
        threads.append(threading.Thread(target=_answer_one, args=(connection, responses, found, ended)))
        threads[-1].start()
    for thread in threads:
        thread.join()


def _answer_one(
    connection: socket.socket, responses: Iterator[Response], found: Scripted, ended: threading.Event
) -> None:
    with connection, suppress(OSError):  # the client has given up
        request = _read_request(connection, ended)
        response = next(responses, None) if request else None
        if response is None:
            return
        found.requests.append(request)
        for part in response.parts:
            connection.sendall(part)
            if response.pause:
                ended.wait(response.pause)
        while response.hold and not ended.is_set():
            if _received(connection) == b"":
                return


def _received(connection: socket.socket) -> bytes | None:
    """What the client has sent; None if nothing came for a while, nothing if it has gone."""
    connection.settimeout(0.05)
    try:
        return connection.recv(65536)
    except TimeoutError:
        return None


def _read_request(connection: socket.socket, ended: threading.Event) -> bytes:
    data, length = b"", 0
    while len(data.partition(b"\r\n\r\n")[2]) < length or b"\r\n\r\n" not in data:
        more = _received(connection)
        if more == b"" or ended.is_set():
            return b""
        data += more or b""
        length = int(_header(data, "content-length") or 0)
    return data
