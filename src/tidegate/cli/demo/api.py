"""The client of the HTTP API that the demo uses: calls, and a stream of records."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from tidegate.errors import TidegateError

CALL_SECONDS = 30.0
RETRY_SECONDS = 0.5


class Api:
    """Calls one server. Safe to use from several threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._address = urlsplit(url).netloc

    def get(self, path: str, **query: str) -> Any:
        """Return the response to a GET; raises TidegateError with the code of the server's error."""
        return self._call("GET", path, query, None)

    def post(self, path: str, body: dict[str, Any], **query: str) -> Any:
        """Return the response to a POST; raises as `get` does."""
        return self._call("POST", path, query, msgspec.json.encode(body))

    def open(self, path: str, query: str = "", seconds: float = CALL_SECONDS) -> HTTPConnection:
        """Send a GET and return the connection, to read the response from."""
        connection = HTTPConnection(self._address, timeout=seconds)
        connection.request("GET", f"{path}?{query}")
        return connection

    def _call(self, method: str, path: str, query: dict[str, str], body: bytes | None) -> Any:
        connection = HTTPConnection(self._address, timeout=CALL_SECONDS)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            connection.request(method, f"{path}?{urlencode(query)}" if query else path, body, headers)
            return decoded(connection.getresponse())
        except (OSError, HTTPException) as error:
            raise TidegateError("no-answer", f"{self.url}{path}: {error}", "", retryable=True) from None
        finally:
            connection.close()


def decoded(response: HTTPResponse) -> Any:
    """Decode the body of a response; raises the error that it holds."""
    data = response.read()
    try:
        body = msgspec.json.decode(data)
        if response.status < 400:
            return body
        error = body["error"]
        raise TidegateError(
            error["code"], error["message"], error["hint"], retryable=response.status in (404, 429, 503)
        )
    except (msgspec.DecodeError, LookupError, TypeError):
        raise TidegateError("no-answer", f"the server responded with {response.status}", "") from None


class RecordStream:
    """Calls `take`, in a thread of its own, for each record of some topics from their start.

    Reconnects and continues from its position when the connection is lost; waits for topics that do not exist
    yet.
    """

    def __init__(self, api: Api, topics: list[str], take: Callable[[Any], None]) -> None:
        self._api = api
        self._topics = topics
        self._take = take
        self._at: str | None = None
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="tidegate-demo-live", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the thread. May be called again."""
        with self._lock:
            self._stopping.set()
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(OSError, HTTPException, TidegateError):
                self._follow()
            self._stopping.wait(RETRY_SECONDS)

    def _follow(self) -> None:
        query: list[tuple[str, str]] = [("topic", topic) for topic in self._topics]
        query.append(("from", "start") if self._at is None else ("at", self._at))
        connection = self._api.open("/live", urlencode(query))
        try:
            with self._lock:
                if self._stopping.is_set():
                    return
                self._socket = connection.sock
            response = connection.getresponse()
            if response.status != 200:
                decoded(response)
            self._events(response)
        finally:
            with self._lock:
                self._socket = None
            connection.close()

    def _events(self, response: HTTPResponse) -> None:
        """Read events: lines `id:`, `event:` and `data:`. The stream ends after an event `failure`."""
        position = kind = ""
        while line := response.readline():
            name, _, text = line.decode().rstrip("\n").partition(": ")
            if name == "id":
                position = text
            elif name == "event":
                kind = text
            elif name == "data" and kind == "records":
                for record in msgspec.json.decode(text):
                    self._take(record)
                self._at = position
