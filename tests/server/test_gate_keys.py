"""Keys of a gate by prefix, and by what waits longest."""

from __future__ import annotations

from typing import Any

import pytest
from tests.gate.app import EVENTS
from tests.server.conftest import Client
from tests.server.test_gates import APPLIED, got, posted
from tests.waiting import wait_for

from tidegate.connect.connection import Connection

pytestmark = pytest.mark.usefixtures("working")


def keys(client: Client, **query: Any) -> list[str]:
    return [one["key"] for one in got(client, "/gates/door/keys", **query)["keys"]]


def test_keys_that_begin_alike(client: Client) -> None:
    for name in ("a", "ab", "ab1", "ab2", "abc", "b", "aa"):
        posted(client, f"/gates/door/keys/{name}/pause", **APPLIED)
    wait_for(lambda: len(keys(client)) == 7)
    assert keys(client, prefix="ab") == ["ab", "ab1", "ab2", "abc"], "also the prefix itself"
    first = got(client, "/gates/door/keys", prefix="ab", limit="2")
    assert [one["key"] for one in first["keys"]] == ["ab", "ab1"]
    assert keys(client, prefix="ab", after=first["next"]) == ["ab2", "abc"]
    assert keys(client, prefix="ax") == []
    assert keys(client, prefix="a", status="active") == []
    assert keys(client, prefix="\x00tidegate.everyone") == []


def test_what_waits_longest_comes_first(client: Client, connection: Connection) -> None:
    order = ("mia", "ada", "zoe", "bob")
    for name in order:
        posted(client, f"/gates/door/keys/{name}/pause", **APPLIED)
    for count, name in enumerate(order, 1):
        connection.send(EVENTS, name, 1)
        wait_for(lambda count=count: got(client, "/gates/door")["held"] == count)  # type: ignore[misc]
    assert keys(client, order="oldest") == list(order)
    assert keys(client, order="oldest", limit="2") == ["mia", "ada"]
    assert keys(client, order="oldest", prefix="a") == ["ada"]
    assert got(client, "/gates/door/keys", order="oldest", limit="2")["next"] is None
