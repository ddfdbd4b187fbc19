"""Frames that arrive, that are cut, that are wrong: what each of the three clients holds then."""

from __future__ import annotations

import msgspec
import pytest
from tests.client.followers import KINDS, follow
from tests.client.scripted import (
    ID,
    cut,
    frame,
    json_response,
    refusal,
    rows,
    scripted,
    stream,
)

ONE, TWO, THREE = rows({"a": {"n": 1}, "b": [1]}, {"a": {"n": 2}}, {"c": {"__proto__": {"polluted": 1}}})
T1, T2, T3 = (row.token(ID) for row in (ONE, TWO, THREE))
S1, S2, S3 = (row.document() for row in (ONE, TWO, THREE))
every = pytest.mark.parametrize("kind", KINDS)


def changed(line: bytes, **fields: object) -> bytes:
    """A frame with other fields."""
    return msgspec.json.encode({**msgspec.json.decode(line), **fields}) + b"\n"


@every
def test_a_stream_is_followed_and_parts_that_do_not_change_are_shared(kind: str) -> None:
    with scripted([stream(frame(ONE), b"\n", frame(TWO, ONE), frame(THREE, TWO), hold=True)]) as server:
        found = follow(kind, server.url, 3, bearer="secret")
    assert found.states == [S1, S2, S3]
    assert [(one.token, one.kind) for one in found.versions] == [(T1, "state"), (T2, "patch"), (T3, "patch")]
    assert found.shared == [[], ["b"], ["a", "b"]]
    assert server.hashes == [None]
    assert server.header("Authorization") == ["Bearer secret"]
    assert server.header("Accept") == ["application/x-ndjson"]


@every
def test_after_the_end_of_a_stream_the_next_request_names_the_held_version(kind: str) -> None:
    """An empty patch is no new version."""
    ends = [
        stream(frame(ONE), frame(TWO, ONE)),
        stream(frame(TWO, TWO)),
        stream(frame(THREE, TWO), hold=True),
    ]
    with scripted(ends) as server:
        found = follow(kind, server.url, 3)
    assert found.states == [S1, S2, S3]
    assert server.hashes == [None, T2, T2]


@every
def test_a_frame_that_is_cut_at_any_byte_leaves_the_client_at_its_old_token(kind: str) -> None:
    patch = frame(THREE, ONE)
    cuts = [cut(patch, size) for size in range(len(patch))]
    with scripted([stream(frame(ONE)), *cuts, stream(patch, hold=True)]) as server:
        found = follow(kind, server.url, 2)
    assert found.states == [S1, S3]
    assert server.hashes == [None, *([T1] * (len(patch) + 1))]


@every
def test_another_digest_drops_the_token_once(kind: str) -> None:
    wrong = changed(frame(TWO, ONE), digest="sha256:00")
    ends = [
        stream(frame(ONE), wrong, frame(THREE, TWO)),
        stream(frame(TWO)),
        stream(frame(THREE, TWO), hold=True),
    ]
    with scripted(ends) as server:
        found = follow(kind, server.url, 3)
    assert found.states == [S1, S2, S3]
    assert server.hashes == [None, None, T2]


@every
def test_three_other_digests_in_a_row_are_an_error(kind: str) -> None:
    """A frame that is right in between starts the count again."""
    wrong = changed(frame(TWO, ONE), digest="sha256:00")
    bad_state = changed(frame(TWO), state={"a": 1})
    ends = [
        stream(frame(ONE), wrong),
        stream(frame(ONE)),
        stream(wrong),
        stream(bad_state),
        stream(bad_state),
    ]
    with scripted([*ends, stream(frame(TWO), hold=True)]) as server:
        found = follow(kind, server.url, 9)
    assert found.error == "digest-mismatch"
    assert found.states == [S1, S1]
    assert server.hashes == [None, None, T1, None, None]


@every
def test_a_patch_that_does_not_fit_counts_as_another_digest(kind: str) -> None:
    odd = changed(frame(TWO, ONE), patch={"*": {"never": {"*": {}}}})
    with scripted([stream(frame(ONE), odd), stream(frame(TWO), hold=True)]) as server:
        found = follow(kind, server.url, 2)
    assert found.states == [S1, S2]
    assert server.hashes == [None, None]


@every
def test_what_is_no_frame_for_the_held_version_is_never_applied(kind: str) -> None:
    """A patch for another version, a frame of another id, no JSON, a frame without a kind, no stream, a busy
    server, a stream that fails: each time the client connects again, with its token."""
    failing = {"error": {"code": "log-unreachable", "message": "m", "hint": "h", "retryable": True}}
    ends = [
        stream(frame(ONE), frame(THREE, TWO), hold=True),
        stream(changed(frame(TWO), id="w/2"), hold=True),
        stream(b"<html>\n", hold=True),
        stream(b"[]\n", hold=True),
        stream(changed(frame(TWO), event="other"), hold=True),
        stream(changed(frame(TWO), token=5), hold=True),
        stream(msgspec.json.encode(failing) + b"\n", hold=True),
        json_response(200, "<html>", "text/html"),
        refusal(503, "not-ready"),
        refusal(429, "too-many-streams"),
        stream(frame(TWO, ONE), hold=True),
    ]
    with scripted(ends) as server:
        found = follow(kind, server.url, 2)
    assert found.states == [S1, S2]
    assert server.hashes == [None, *[T1] * 10]


@every
def test_a_refusal_is_an_error_with_the_servers_code(kind: str) -> None:
    with scripted([stream(frame(ONE)), refusal(403, "not-granted"), stream(frame(TWO))]) as server:
        found = follow(kind, server.url, 2)
    assert (found.states, found.error) == ([S1], "not-granted")
    assert len(server.requests) == 2


@every
def test_a_stream_that_the_server_ends_for_good_is_an_error(kind: str) -> None:
    ended = {"error": {"code": "grant-ended", "message": "m", "hint": "h", "retryable": False}}
    with scripted([stream(frame(ONE), msgspec.json.encode(ended) + b"\n")]) as server:
        found = follow(kind, server.url, 2)
    assert (found.states, found.error) == ([S1], "grant-ended")


@every
def test_a_refusal_without_a_code_is_server_refused(kind: str) -> None:
    with scripted([json_response(418, "tea", "text/plain")]) as server:
        assert follow(kind, server.url, 1).error == "server-refused"


@every
def test_a_token_that_the_server_cannot_read_is_dropped(kind: str) -> None:
    with scripted([refusal(400, "bad-token"), stream(frame(ONE), hold=True)]) as server:
        found = follow(kind, server.url, 1, token="odd", state={})  # noqa: S106
    assert found.states == [S1]
    assert server.hashes == ["odd", None]


@every
def test_a_client_begins_with_the_version_that_it_is_given(kind: str) -> None:
    with scripted([stream(frame(THREE, ONE), hold=True)]) as server:
        found = follow(kind, server.url, 1, token=T1, state=S1)
    assert [(one.state, one.kind) for one in found.versions] == [(S3, "patch")]
    assert server.hashes == [T1]


@every
def test_an_id_that_is_removed_and_created_again(kind: str) -> None:
    [gone] = rows({}, row=ONE)
    [again] = rows({"x": 1}, row=gone)
    with scripted(
        [stream(frame(ONE), frame(gone, ONE)), stream(frame(gone, gone), frame(again, gone), hold=True)]
    ) as server:
        found = follow(kind, server.url, 3)
    assert [(one.state, one.gone, one.kind) for one in found.versions] == [
        (S1, False, "state"),
        (None, True, "gone"),
        ({"x": 1}, False, "state"),
    ]
    assert server.hashes == [None, gone.token(ID)]


@every
def test_a_connection_without_a_byte_is_given_up(kind: str) -> None:
    silent = stream(frame(ONE), hold=True)
    with scripted([silent, stream(frame(TWO, ONE), hold=True)]) as server:
        found = follow(kind, server.url, 2, silence=1.0)
    assert found.states == [S1, S2]
    assert server.hashes == [None, T1]


@every
def test_heartbeats_keep_a_connection(kind: str) -> None:
    beats = stream(frame(ONE), *[b"\n"] * 25, frame(TWO, ONE), hold=True, pause=0.1)
    with scripted([beats]) as server:
        found = follow(kind, server.url, 2, silence=2.0)
    assert found.states == [S1, S2]
    assert len(server.requests) == 1
