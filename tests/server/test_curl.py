"""Answers as a person with curl sees them: each ends its line, and shows no bookkeeping unless requested."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.gate.app import EVENTS
from tests.gate.working import Working
from tests.models.app import EVENTS as WORKFLOW_EVENTS
from tests.models.app import Started, StepDone, workflows
from tests.server.conftest import Client
from tests.waiting import wait_for

from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.log.sqlite.log import SqliteLog

CURL = shutil.which("curl")


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
    assert names(internal_headers=True) == [["source"]]


@pytest.mark.skipif(CURL is None, reason="needs curl. Do: sudo apt-get install curl")
def test_a_model_with_curl(
    config: Config, log: SqliteLog, connection: Connection, client: Client, tmp_path: Path
) -> None:
    """API.md (iii): one combined patch since the version that is held, then live."""
    with closing(Working(log, tmp_path, workflows)):
        connection.send(WORKFLOW_EVENTS, "wf-1", Started("Ship"))
        wait_for(lambda: client.get("/workflows/wf-1").status_code == 200)
        held = client.get("/workflows/wf-1").json()["token"]
        connection.send(WORKFLOW_EVENTS, "wf-1", *(StepDone("build", float(number)) for number in range(4)))
        wait_for(lambda: client.get("/workflows/wf-1").json()["token"].startswith("1-5-"))
        url = f"{str(client.base_url).rstrip('/')}/workflows/wf-1/events?hash={held}"
        process = subprocess.Popen([str(CURL), "-sN", url], stdout=subprocess.PIPE, text=True)
        try:
            first = _event_of(process)
            assert (first["id"], first["event"]) == (first["data"]["token"], "patch")
            assert first["data"]["from"] == held
            assert first["data"]["patch"] == {"*": {"steps": {"=": {"build": 3.0}}}}
            connection.send(WORKFLOW_EVENTS, "wf-1", Started("Shipped"))
            second = _event_of(process)
            assert second["data"]["from"] == first["id"]
            assert second["data"]["patch"] == {"*": {"title": {"=": "Shipped"}}}
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _event_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """The next event with data."""
    assert process.stdout is not None
    found: dict[str, Any] = {}
    for line in process.stdout:
        name, _, value = line.rstrip("\n").partition(": ")
        if value:
            found[name] = json.loads(value) if name == "data" else value
        elif "data" in found:
            return found
    raise AssertionError("the stream ended")
