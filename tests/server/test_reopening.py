"""A server whose log is spent by a commit that failed on disk: it reports that, and opens the log again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.gate.app import EVENTS, gated
from tests.log.faulty_vfs import FaultyVfs
from tests.server.conftest import Client, Serve
from tests.server.test_gates import got
from tests.server.test_live import events, values
from tests.waiting import wait_for

from tidegate.clock import SystemClock
from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.server import serve as serving

PAUSE = "/gates/door/keys/ada/pause"


@pytest.fixture
def vfs() -> Iterator[FaultyVfs]:
    made = FaultyVfs()
    yield made
    made.unregister()


@pytest.fixture
def faulty(
    vfs: FaultyVfs, config: Config, serve: Serve, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> Client:
    """A server whose disk fails on request; the app and its clients have another one."""
    prepare(gated().build(), log, SystemClock(), partitions=2)

    def opened(*_: Any, **__: Any) -> SqliteLog:
        return SqliteLog(config.folder / "log.db", upkeep=False, vfs=vfs.name)

    # A URL cannot name a disk that fails.
    monkeypatch.setattr(serving, "open_log", opened)
    return serve()


def code_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_a_commit_of_unknown_outcome_is_reported_and_the_next_call_is_answered(
    faulty: Client, vfs: FaultyVfs, connection: Connection
) -> None:
    assert faulty.post(PAUSE).status_code == 200
    assert got(faulty, "/stores/counted")["rows"] == []
    with faulty.stream("GET", "/live?topic=events&type=int") as answer:
        stream = events(answer)
        for turn in range(3):
            vfs.sync_fails(1)
            assert code_of(faulty.post(PAUSE)) == (503, "commit-unknown")
            assert vfs.heal()
            if turn != 1:  # whoever comes first opens it: a probe, or a call
                assert faulty.get("/health/ready").status_code == 200
            assert faulty.post(PAUSE).status_code == 200
            connection.send(EVENTS, "ada", turn)
            assert values([next(stream)]) == [turn]
    assert got(faulty, "/gates/door")["gate"] == "door"
    assert "gated" in [one["app"] for one in got(faulty, "/tasks")["apps"]]


def test_a_commit_of_unknown_outcome_is_not_retryable(faulty: Client, vfs: FaultyVfs) -> None:
    """On no log: a client that appends it again without reading first may have it twice."""
    vfs.sync_fails(1)
    answer = faulty.post(PAUSE).json()["error"]
    assert (answer["code"], answer["retryable"]) == ("commit-unknown", False)
    assert vfs.heal()


def test_a_server_is_not_ready_while_its_disk_takes_no_commit(faulty: Client, vfs: FaultyVfs) -> None:
    assert faulty.get("/health/ready").json() == {"ready": True}
    vfs.sync_fails(1, stays=True)
    assert code_of(faulty.post(PAUSE)) == (503, "commit-unknown")
    for _ in range(3):
        answer = faulty.get("/health/ready")
        assert (answer.status_code, answer.json()) == (503, {"ready": False, "reason": "commit-unknown"})
        assert code_of(faulty.post(PAUSE)) == (503, "commit-unknown")
    assert vfs.heal()
    wait_for(lambda: faulty.get("/health/ready").status_code == 200)
    assert faulty.post(PAUSE).status_code == 200


def test_a_log_that_was_opened_again_leaves_nothing_open(faulty: Client, vfs: FaultyVfs) -> None:
    import os
    import threading

    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()  # noqa: PTH208

    def fail() -> None:
        vfs.sync_fails(1)
        assert code_of(faulty.post(PAUSE)) == (503, "commit-unknown")
        assert vfs.heal()
        assert faulty.get("/health/ready").status_code == 200

    fail()
    before = held()
    for _ in range(5):
        fail()
    wait_for(lambda: held()[0] <= before[0] and held()[1] <= before[1] + 2)
