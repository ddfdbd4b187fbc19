"""A server that starts while the tasks restore: it answers from the changelogs meanwhile."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from tests.gate.app import EVENTS, PASSED
from tests.gate.working import Working
from tests.server.conftest import Serve
from tests.server.test_gates import APPLIED, got, out, posted
from tests.waiting import wait_for

from tidegate.connect.connection import Connection
from tidegate.log.faultpoints import installed
from tidegate.log.sqlite.log import SqliteLog


def test_gates_and_stores_are_answered_and_a_pause_is_taken(
    serve: Serve, log: SqliteLog, connection: Connection, tmp_path: Path
) -> None:
    first = Working(log, tmp_path)
    before = serve()
    posted(before, "/gates/door/keys/ada/pause", **APPLIED)
    connection.send(EVENTS, "ada", 1, 2, 3)
    connection.send(EVENTS, "bob", 1)
    wait_for(lambda: got(before, "/gates/door")["held"] == 3)
    wait_for(lambda: out(connection, "bob") == [1])
    first.close()
    shutil.rmtree(tmp_path / "state")
    go_on, restoring = threading.Event(), threading.Event()

    def hold(point: str) -> None:
        if point == "restore.4":
            restoring.set()
            assert go_on.wait(60)

    with installed(hold):
        second = Working(log, tmp_path)
        assert restoring.wait(30)
        client = serve()
        answer = got(client, "/gates/door/keys/ada")
        assert (answer["waiting"], answer["status"]["state"]) == (3, "PAUSED")
        assert [one["value"] for one in got(client, "/gates/door/keys/ada/buffer", type="int")["events"]] == [
            1,
            2,
            3,
        ]
        assert got(client, "/stores/counted/bob", type="int")["rows"][0]["value"] == 1
        later = posted(client, "/gates/door/keys/bob/pause", code=202, wait="applied", seconds="0.3")
        assert later["applied"] is False
        connection.send(EVENTS, "bob", 2)
        go_on.set()
        wait_for(lambda: got(client, "/gates/door/keys/bob")["waiting"] == 1)
    assert out(connection, "bob") == [1], "a pause that was committed before the restart is honoured"
    for key in ("ada", "bob"):
        posted(client, f"/gates/door/keys/{key}/resume", **APPLIED)
    wait_for(lambda: len(list(connection.read(PASSED))) == 5)
    assert (out(connection, "ada"), out(connection, "bob")) == ([1, 2, 3], [1, 2])
    second.close()
