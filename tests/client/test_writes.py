"""Append, create and delete: sent again when the response is lost, and refused by name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.client.followers import KINDS, follow
from tests.client.scripted import ID, Response, frame, json_response, refusal, rows, scripted, stream

[ONE] = rows({"a": 1})
every = pytest.mark.parametrize("kind", KINDS)
LOST = Response((b"HTTP/1.1 20",))


def done(outcome: str) -> dict[str, Any]:
    return {"id": ID, "token": "t", "outcome": outcome}


@every
def test_writes_name_id_diff_and_expected_version(kind: str) -> None:
    answers = [json_response(200, {**done("appended"), "decided": True}), json_response(201, done("created"))]
    answers.append(json_response(200, done("deleted")))
    diff = {"type": "x", "é": [1.5]}
    calls = [("append", diff, "1-2-x"), ("create", diff), ("delete", "1-3-x")]
    with scripted([stream(frame(ONE), hold=True), *answers]) as server:
        found = follow(kind, server.url, 1, calls=calls, bearer="secret")
    assert [one["outcome"] for one in found.calls] == ["appended", "created", "deleted"]
    [_, append, create, delete] = server.requests
    assert append.startswith(b"POST /flows/w%2F1/diffs HTTP/1.1\r\n")
    assert create.startswith(b"POST /flows HTTP/1.1\r\n")
    assert delete.startswith(b"DELETE /flows/w%2F1 HTTP/1.1\r\n")
    assert msgspec.json.decode(append.partition(b"\r\n\r\n")[2]) == diff
    assert msgspec.json.decode(create.partition(b"\r\n\r\n")[2]) == {"id": ID, "diff": diff}
    assert server.header("If-Match")[1:] == ['"1-2-x"', None, '"1-3-x"']
    assert server.header("Authorization") == ["Bearer secret"] * 4
    assert len(set(server.header("Idempotency-Key")[1:])) == 3


@every
def test_a_write_whose_response_is_lost_is_sent_again_with_the_same_key(kind: str) -> None:
    answers = [LOST, refusal(503, "commit-unknown"), json_response(200, done("appended"))]
    with scripted([stream(frame(ONE), hold=True), *answers]) as server:
        found = follow(kind, server.url, 1, calls=[("append", {"a": 2})])
    assert [one["outcome"] for one in found.calls] == ["appended"]
    [_, *keys] = server.header("Idempotency-Key")
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0] is not None


@every
def test_writes_fail_by_name(kind: str) -> None:
    answers = [refusal(409, "other-version", token="1-9-x"), json_response(202, {"decided": False})]  # noqa: S106
    with scripted([stream(frame(ONE), hold=True), *answers]) as server:
        found = follow(kind, server.url, 1, calls=[("append", {}, "1-2-x"), ("delete",), ("append", {})])
    assert [(one["code"], one["status"], one["token"]) for one in found.calls] == [
        ("other-version", 409, "1-9-x"),
        ("not-decided", 202, None),
        ("server-unreachable", 0, None),
    ]
