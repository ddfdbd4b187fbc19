"""What is particular to the client in TypeScript: listeners, localStorage, functions that return grants."""

from __future__ import annotations

import msgspec
from tests.client import node
from tests.client.scripted import ID, frame, rows, scripted, stream

ONE, TWO, THREE = rows({"n": 1}, {"n": 2}, {"n": 3})
ENDED = msgspec.json.encode(
    {"error": {"code": "grant-ended", "message": "m", "hint": "h", "retryable": False}}
)


def test_listeners_storage_grants_and_the_end() -> None:
    responses = [
        stream(frame(ONE), frame(TWO, ONE), hold=True),
        stream(frame(ONE, ONE), frame(THREE, ONE), hold=True, pause=0.1),
        stream(frame(ONE), ENDED + b"\n"),
        stream(frame(THREE, ONE), hold=True),
        stream(frame(ONE), ENDED + b"\n"),
    ]
    with scripted(responses) as server:
        found = node.run("behaviour.mjs", server.url)
    assert found == {
        "states": [1, 2],
        "storeError": "QuotaExceededError",
        "keys": ["tidegate:URL/flows/w%2F1"],
        "kept": [1],
        "early": 1,
        "uncaught": "of a listener",
        "second": [1, 3],
        "unsubscribed": [1],
        "afterClose": 3,
        "closed": "client-closed",
        "granted": [1, 3],
        "notRenewed": "grant-ended",
        "remembered": "grant-ended",
    }
    assert server.hashes == [None, ONE.token(ID), None, ONE.token(ID), None]
    assert server.header("Authorization") == [None, None, "Bearer g1", "Bearer g2", "Bearer g"]
