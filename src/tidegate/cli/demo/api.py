"""The demo as a client of the HTTP API: calls, and records as they come."""

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
AGAIN_SECONDS = 0.5


class Api:
    """One server. Calls may come from any thread."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._address = urlsplit(url).netloc

    def get(self, path: str, **query: str) -> Any:
        """The answer to a GET. TidegateError with the server's code if there is none."""
        return self._call("GET", path, query, None)

    def post(self, path: str, body: dict[str, Any], **query: str) -> Any:
        """The answer to a POST."""
        return self._call("POST", path, query, msgspec.json.encode(body))

    def open(self, path: str, query: str = "", seconds: float = CALL_SECONDS) -> HTTPConnection:
        """A connection on which a GET was sent."""
        connection = HTTPConnection(self._address, timeout=seconds)
        connection.request("GET", f"{path}?{query}")
        return connection

    def _call(self, method: str, path: str, query: dict[str, str], body: bytes | None) -> Any:
        connection = HTTPConnection(self._address, timeout=CALL_SECONDS)
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            connection.request(method, f"{path}?{urlencode(query)}" if query else path, body, headers)
            return answered(connection.getresponse())
        except (OSError, HTTPException) as error:
            raise TidegateError("no-answer", f"{self.url}{path}: {error}", "", retryable=True) from None
        finally:
            connection.close()


def answered(response: HTTPResponse) -> Any:
    """What an answer holds, or the error that it tells."""
    data = response.read()
    try:
        told = msgspec.json.decode(data)
        if response.status < 400:
            return told
        error = told["error"]
        raise TidegateError(
            error["code"], error["message"], error["hint"], retryable=response.status in (404, 429, 503)
        )
    except (msgspec.DecodeError, LookupError, TypeError):
        raise TidegateError("no-answer", f"the server answered {response.status}", "") from None


class RecordStream:
    """Records of some topics from their start, each handed to `take` in a thread of its own.

    A stream that breaks off goes on where it stood; topics that do not exist yet are waited for.
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
        """Follow no more; stopping twice is fine."""
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
            self._stopping.wait(AGAIN_SECONDS)

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
                answered(response)
            self._events(response)
        finally:
            with self._lock:
                self._socket = None
            connection.close()

    def _events(self, response: HTTPResponse) -> None:
        """An event is lines `id:`, `event:` and `data:`. Behind an event `failure` the stream ends."""
        place = kind = ""
        while line := response.readline():
            name, _, text = line.decode().rstrip("\n").partition(": ")
            if name == "id":
                place = text
            elif name == "event":
                kind = text
            elif name == "data" and kind == "records":
                for record in msgspec.json.decode(text):
                    self._take(record)
                self._at = place
