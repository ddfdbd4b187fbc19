"""Bad input to calls that write to models: refused, and nothing is written."""

from __future__ import annotations

from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest
from tests.server.conftest import Client
from tests.server.written_models import PATH, REQUESTS, code, key, without_source

from tidegate.clock import SystemClock
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.testing.views import all_records


@pytest.fixture
def prepared(log: SqliteLog) -> None:
    """An app that never runs: nothing is decided."""
    prepare(without_source().build(), log, SystemClock(), partitions=2)


LONG = "%C3%A9" * 257
BAD_INPUT: list[tuple[str, str, dict[str, Any], tuple[int, str]]] = [
    ("POST", f"{PATH}/w1/diffs", {"content": b"{"}, (400, "bad-body")),
    ("POST", f"{PATH}/w1/diffs", {"content": b"\xff"}, (400, "bad-body")),
    ("POST", f"{PATH}/w1/diffs", {"content": b""}, (400, "bad-body")),
    ("POST", f"{PATH}/w1/diffs", {"content": b"null"}, (422, "bad-diff")),
    ("POST", f"{PATH}/w1/diffs", {"content": b"NaN"}, (400, "bad-body")),
    ("POST", f"{PATH}/w1/diffs", {"content": b"[1e999]"}, (400, "bad-body")),
    ("POST", f"{PATH}/w1/diffs", {"content": b'{"a":1,"a":2}'}, (400, "bad-body")),
    ("POST", f"{PATH}/w1/diffs", {"content": b'"\\ud800"'}, (400, "bad-body")),
    ("POST", f"{PATH}/w1/diffs", {"content": b'"\\u0000"'}, (400, "bad-body")),
    ("POST", f"{PATH}/w1/diffs", {"content": b"1" * 30}, (400, "bad-body")),
    ("POST", f"{PATH}/w1/diffs", {"content": b"1" * 5000}, (400, "bad-body")),
    ("POST", f"{PATH}/w1/diffs", {"content": b"[" * 102 + b"]" * 102}, (400, "bad-body")),
    ("POST", f"{PATH}/w1/diffs", {"content": b"[" * 50_000}, (400, "bad-body")),
    ("POST", f"{PATH}/w1/diffs", {"content": b'"%b"' % (b"x" * 110_000)}, (413, "too-large")),
    ("POST", f"{PATH}/w1/diffs", {"content": b"{}", "type": "text/plain"}, (415, "needs-json")),
    ("POST", f"{PATH}/w1/diffs", {"content": b"{}", "type": None}, (415, "needs-json")),
    ("POST", PATH, {"content": b"[]"}, (400, "bad-body")),
    ("POST", PATH, {"content": b'{"id": 1}'}, (400, "bad-body")),
    ("POST", PATH, {"content": b'{"ID": "w1"}'}, (400, "bad-body")),
    ("POST", PATH, {"content": b'{"id": ""}'}, (400, "bad-id")),
    ("POST", PATH, {"content": b'{"id": "%b"}' % ("é" * 257).encode()}, (400, "bad-id")),
    ("POST", PATH, {"content": b'{"id": "a\\u0000b"}'}, (400, "bad-body")),
    ("POST", PATH, {"content": b'{"id": "%b"}' % (b"x" * 1_000_000)}, (413, "too-large")),
    ("POST", PATH, {"headers": key("k" * 201)}, (400, "bad-request")),
    ("POST", PATH, {"headers": key("")}, (400, "bad-request")),
    ("POST", f"{PATH}?expect=1-1-x-00000000", {}, (400, "unknown-query")),
    ("POST", f"{PATH}?seconds=61", {}, (400, "bad-request")),
    ("POST", f"{PATH}?seconds=nan", {}, (400, "bad-request")),
    ("POST", "/others", {}, (404, "no-such-model")),
    ("POST", f"{PATH}?app=others", {}, (404, "never-started")),
    ("DELETE", f"{PATH}/{LONG}", {}, (400, "bad-id")),
    ("DELETE", f"{PATH}/{'x' * 60_000}", {}, (400, "bad-id")),
    ("DELETE", f"{PATH}/a%00b", {}, (400, "bad-id")),
    ("DELETE", f"{PATH}/%ED%A0%80", {}, (400, "bad-id")),
    ("DELETE", f"{PATH}/%FF", {}, (400, "bad-id")),
    ("DELETE", f"{PATH}/w1?expect=nonsense", {}, (400, "bad-token")),
    ("DELETE", f"{PATH}/w1?expect=", {}, (400, "bad-token")),
    ("DELETE", f"{PATH}/w1?expect={'1' * 300}", {}, (400, "bad-token")),
    ("DELETE", f"{PATH}/w1", {"headers": {"If-Match": 'W/"1-1-x-00000000"'}}, (400, "bad-token")),
    ("DELETE", f"{PATH}/w1", {"headers": {"If-Match": '"a", "b"'}}, (400, "bad-token")),
    (
        "DELETE",
        f"{PATH}/w1?expect=1-1-x-00000000",
        {"headers": {"If-Match": '"1-2-x-00000000"'}},
        (400, "bad-request"),
    ),
    ("PUT", f"{PATH}/w1", {}, (405, "method-not-allowed")),
    ("PATCH", f"{PATH}/w1/diffs", {}, (405, "method-not-allowed")),
]


@pytest.mark.usefixtures("prepared")
def test_bad_input_is_refused_and_nothing_is_written(client: Client, log: SqliteLog) -> None:
    for method, path, options, refused in BAD_INPUT:
        content, kind = options.get("content", b""), options.get("type", "application/json")
        headers = {**({} if kind is None else {"Content-Type": kind}), **options.get("headers", {})}
        answer = client.request(method, path, content=content, headers=headers)
        assert code(answer) == refused, (method, path[:80], content[:40])
    assert list(all_records(log, REQUESTS)) == []


@pytest.mark.usefixtures("prepared")
def test_an_id_of_a_megabyte_in_the_path_ends_the_connection(client: Client, log: SqliteLog) -> None:
    """Up to 320 KiB it is refused as `head-too-large`."""
    for size, status in ((300_000, 431), (1_000_000, 400)):
        with closing(HTTPConnection(client.base_url.host, client.base_url.port, timeout=30)) as connection:
            connection.request("DELETE", f"{PATH}/{'x' * size}")
            assert connection.getresponse().status == status
    assert client.get("/health/live").status_code == 200
    assert list(all_records(log, REQUESTS)) == []
