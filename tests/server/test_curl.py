"""Answers as a person with curl sees them: each ends its line, and shows no bookkeeping unless requested."""

from __future__ import annotations

from typing import Any

import pytest
from tests.gate.app import EVENTS
from tests.server.conftest import Client
from tests.waiting import wait_for

from tidegate.connect.connection import Connection


@pytest.mark.parametrize(
    "path",
    ["/topics", "/topics/events", "/topics/none", "/gates", "/gates/none", "/no/such/path", "/metrics"],
)
@pytest.mark.usefixtures("working")
def test_every_answer_ends_with_a_newline(client: Client, path: str) -> None:
    assert client.get(path).text.endswith("\n")
    assert client.delete(path).text.endswith("\n")


@pytest.mark.usefixtures("working")
def test_headers_of_tidegate_are_hidden_unless_requested(client: Client, connection: Connection) -> None:
    connection.send(EVENTS, "ada", 1, headers=[("source", b"web")])

    def names(**query: Any) -> list[list[str]]:
        found = client.get("/topics/passed/records", params=query).json().get("records", [])
        return [[name for name, _ in one["headers"]] for one in found]

    wait_for(lambda: names() == [["source"]])
    assert names(internal_headers=True) == [["source", "tidegate.owner", "tidegate.origin"]]
