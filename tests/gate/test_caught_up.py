"""`tidegate run --until-caught-up` waits for what was resumed, and not for what is paused."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.gate.app import EVENTS, PASSED, gated

from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.gate.query import GateQuery
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver import caught_up
from tidegate.runtime.driver.caught_up import CaughtUp
from tidegate.runtime.driver.prepare import prepare


def test_an_app_that_still_releases_held_events_is_not_caught_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate and what is behind it run in two slots: the second takes all there is between two commits of
    the first."""
    monkeypatch.setattr(caught_up, "CHECK_SECONDS", 0.0)  # look at each call
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        run = prepare(gated(drain_chunk=1).build(), log, SystemClock(), partitions=1)
        connection = Connection(log, owned=False)
        slots = run.slots(tmp_path / "state", 2)

        def held() -> int:
            found = GateQuery(log, run.manifest, "door", SystemClock()).key(b"ada").buffered
            return 0 if found is None else found.count

        def round_of_commits() -> None:
            for slot in (*slots, *slots):
                for _ in range(3):
                    slot.step(0.01)
                slot.commit()

        GateQuery(log, run.manifest, "door", SystemClock()).commander.pause(b"ada")
        round_of_commits()
        connection.send(EVENTS, "ada", *range(9))
        pinned = CaughtUp(run, log)
        while not pinned.reached():
            round_of_commits()
        assert held() == 9, "what is paused is not waited for"
        GateQuery(log, run.manifest, "door", SystemClock()).commander.resume(b"ada")
        pinned = CaughtUp(run, log)
        while not pinned.reached():
            round_of_commits()
        assert held() == 0
        assert [record.value for record in connection.read(PASSED)] == list(range(9))
        for slot in slots:
            slot.close()
