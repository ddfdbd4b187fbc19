"""Requests that no client of ours would send: each is refused by name, and the server goes on."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.gate.app import gated
from tests.server.conftest import Client, served

from tidegate.clock import SystemClock
from tidegate.config.config import load_config
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.server import bodies
from tidegate.server.guard import LARGEST_HEAD

PAUSE = "/gates/door/keys/ada/pause"
SMUGGLED = (
    b"POST /gates/door/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /"
)
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """One server for all of them."""
    folder = tmp_path_factory.mktemp("bad-input")
    config = load_config({"log": "sqlite:///log.db"}, environ={}, folder=folder)
    with closing(SqliteLog(folder / "log.db")) as log:
        prepare(gated().build(), log, SystemClock(), partitions=2)
        with served(config) as url, Client(base_url=url, timeout=30) as made:
            yield made


@pytest.fixture(autouse=True)
def undisturbed(client: Client) -> Iterator[None]:
    """Nothing gets into the log, and the server still answers."""
    yield
    assert client.get("/health/ready").status_code == 200
    assert client.get("/topics/gated-door-status/records").json()["records"] == []


def problem(answer: Any) -> tuple[int, str]:
    reported = answer.json()["error"]
    assert reported.keys() == {"code", "message", "hint", "retryable", "id"}
    assert "Traceback" not in answer.text
    return answer.status_code, reported["code"]


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "json", "text/json"]
)
def test_another_content_type_is_refused(client: Client, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    assert problem(client.post(PAUSE, content=b'{"reason":"x"}', headers=headers)) == (415, "needs-json")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"null",
        b'"text"',
        b"[" * 30_000,
        b'{"reason":' * 5_000,
        b'{"reason": ' + b"[" * 40 + b"]" * 40 + b"}",
        b'{"reason":"a","reason":"b"}',
        b'{"expires_in":NaN}',
        b'{"expires_in":Infinity}',
        b'{"expires_in":1e999}',
        b'{"expires_at":' + b"9" * 5_000 + b"}",
        b'{"expires_at":1.5}',
        b'{"expires_at":"1"}',
        b'{"reason":"\\ud800"}',
        b'{"reason":"\\u0000"}',
        b'{"reason":"\xff"}',
        b'{"unknown":1}',
        b'{"reason":null}',
        b"\xef\xbb\xbf{}",
        '{"reason":"x"}'.encode("utf-16"),
    ],
    ids=lambda body: repr(body[:24]),
)
def test_a_body_that_is_no_requested_status_is_refused(client: Client, body: bytes) -> None:
    assert problem(client.post(PAUSE, content=body, headers=JSON)) == (400, "bad-body")


def test_a_body_of_10_mb_is_refused(client: Client) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(160):
            yield b" " * (64 << 10)

    assert problem(client.post(PAUSE, content=b" " * (10 << 20), headers=JSON)) == (413, "too-large")
    assert problem(client.post(PAUSE, content=endless(), headers=JSON)) == (413, "too-large")


def test_a_slow_body_is_not_waited_for(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "SECONDS", 0.3)  # a time-out that the test waits for

    def slow() -> Iterator[bytes]:
        yield b"{"
        time.sleep(1)
        yield b"}"

    assert problem(client.post(PAUSE, content=slow(), headers=JSON)) == (408, "slow-body")


@pytest.mark.parametrize(
    ("path", "code", "name"),
    [
        ("/gates/door/keys//pause", 404, "no-such-path"),
        ("/gates/none/keys/ada/pause", 404, "no-such-gate"),
        ("/gates/..%2f..%2fetc/keys/ada/pause", 404, "no-such-gate"),
        ("/gates/door/keys/ada/pause?wait=later", 400, "bad-request"),
        ("/gates/door/keys/ada/pause?wait=applied&seconds=1e9", 400, "bad-request"),
        ("/gates/door/keys/ada/pause?wiat=applied", 400, "unknown-query"),
        ("/gates/door/keys/ada/pause?key_type=float", 400, "unencodable"),
        ("/gates/door/keys/ada/pause?app=none", 404, "never-started"),
    ],
)
def test_a_call_that_cannot_be_done_is_refused(client: Client, path: str, code: int, name: str) -> None:
    assert problem(client.post(path)) == (code, name)


@pytest.mark.parametrize(
    ("path", "code", "name"),
    [
        ("/stores/none", 404, "no-such-store"),
        ("/stores/..%2f..%2fetc%2fpasswd", 404, "no-such-store"),
        ("/stores/counted?limit=0", 400, "bad-request"),
        ("/stores/counted?limit=1001", 400, "bad-request"),
        ("/stores/counted?limit=99999999999999999999999", 400, "bad-request"),
        ("/stores/counted?after=%25%25", 400, "bad-cursor"),
        ("/stores/counted?after=AAAA", 400, "bad-cursor"),
        ("/stores/counted?at_least=nonsense", 400, "bad-position"),
        ("/stores/counted?at_least=events:0=1", 400, "bad-position"),
        ("/stores/counted?at_least=" + "x" * 20_000, 400, "bad-position"),
        ("/topics/none", 404, "no-such-topic"),
        ("/topics/%00", 404, "no-such-topic"),
        ("/topics/events/records?partition=7", 404, "no-such-partition"),
        ("/topics/events/records?at=passed:0=1", 400, "bad-position"),
        ("/topics/events/records?since=-1", 400, "bad-request"),
        ("/live", 400, "bad-request"),
        ("/live?topic=none", 404, "no-such-topic"),
        ("/live?topic=events&at=x", 400, "bad-position"),
        ("/gates/door/keys?status=odd", 400, "bad-request"),
        ("/gates/door/keys/ada/buffer?after=-1", 400, "bad-request"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(client: Client, path: str, code: int, name: str) -> None:
    assert problem(client.get(path)) == (code, name)


@pytest.mark.parametrize(
    "last", ["x", "events:0=1\\r\\nevil: 1", "passed:0=0", "events:0=-1", "events:9=1", ""]
)
def test_a_bad_last_event_id_is_refused(client: Client, last: str) -> None:
    if not last:
        with client.stream("GET", "/live?topic=events", headers={"Last-Event-ID": last}) as answer:
            assert answer.status_code == 200
        return
    assert problem(client.get("/live?topic=events", headers={"Last-Event-ID": last})) == (400, "bad-position")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_do_nothing(client: Client, method: str) -> None:
    assert problem(client.request(method, PAUSE)) == (405, "method-not-allowed")


NOT_HTTP = "Invalid HTTP request received."
"""What never reaches the application is refused in these words, with no code."""


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"GET /gates/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, NOT_HTTP),
        (b"GET /gates HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", 400, NOT_HTTP),
        (b"GET /gates HTTP/1.1\r\n\r\n", 400, NOT_HTTP),
        (
            b"GET /gates HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * (LARGEST_HEAD + 1_000) + b"\r\n\r\n",
            431,
            "head-too-large",
        ),
        (b"GET /" + b"k" * (1 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 400, NOT_HTTP),
        (
            b"GET /gates/door/keys/" + b"k" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            413,
            "too-large",
        ),
        (SMUGGLED, 400, "bad-request"),
        (
            b"POST /gates/door/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
            400,
            NOT_HTTP,
        ),
        (b"\x00\x01\x02\x03\r\n\r\n", 400, NOT_HTTP),
        (b"GET http://evil.example/gates HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "bad-host"),
    ],
    ids=lambda given: repr(given[:30]) if isinstance(given, bytes) else str(given),
)
def test_what_is_hardly_http_is_refused(client: Client, raw: bytes, status: int, code: str) -> None:
    place = urlsplit(str(client.base_url))
    with closing(socket.create_connection((place.hostname, place.port), timeout=10)) as wire:
        for at in range(0, len(raw), 16 << 10):
            if select.select([wire], [], [], 0.005 if at else 0)[0]:
                break  # it has seen enough, and closes: what is sent behind that would reset the connection
            wire.sendall(raw[at : at + (16 << 10)])
        answer = HTTPResponse(wire)
        answer.begin()
        reported = answer.read().decode()
    assert answer.status == status
    assert reported == code if code == NOT_HTTP else json.loads(reported)["error"]["code"] == code
