"""A recalculation on slots, in threads of this process, while the live app goes on on its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.runtime.fleet import COUNTS, LINES, QUICK, Fleet, Threads, wordcount
from tests.upgrade.versions import fresh_rows
from tests.waiting import wait_for

from tidegate import App, LogError
from tidegate.clock import SystemClock
from tidegate.log import names
from tidegate.log.protocol import Log
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.writer import SqliteWriter
from tidegate.runtime.driver.takeover import Claim, request_stop
from tidegate.runtime.replay import Cut
from tidegate.runtime.slot.job import SlotJob
from tidegate.runtime.slot.pace import REPLAY_OPEN_SECONDS
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.upgrade.cut import live_cut
from tidegate.upgrade.previews import run_preview
from tidegate.upgrade.progress import Progress
from tidegate.upgrade.recalculation import attach_recalculation
from tidegate.upgrade.runners import OnSlots


class ReplayThreads(Threads):
    """Slots of a recalculation as threads."""

    def launch(self, order: SlotOrder) -> None:
        self.launched.append(order)
        self.before(order)
        assert order.replay is not None
        clock = SystemClock()
        topology = self._app().build()
        run = attach_recalculation(
            topology, order.app_id, self._log, clock, order.replay, on_error=order.on_error, small_batch=10
        )
        for _ in SlotJob(order, run, self._log, clock, self.intervals).run():
            pass


class NotingLog(SqliteLog):
    """Notes how long the transactions of each writer may be open."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.noted: set[tuple[str, float | None]] = set()

    def writer(self, writer_id: str, *, open_seconds: float | None = None) -> SqliteWriter:
        self.noted.add((writer_id, open_seconds))
        return super().writer(writer_id, open_seconds=open_seconds)


def order_in(folder: Path, log: Log) -> Callable[[Claim, int, int], SlotOrder]:
    def order(claim: Claim, slot: int, attempt: int) -> SlotOrder:
        return SlotOrder(
            app="",
            app_id=claim.app,
            settings={},
            fingerprint="",
            log=log.location,
            folder=str(folder),
            state_dir="state",
            epoch=claim.epoch,
            slot=slot,
            attempt=attempt,
            writer=claim.writer_id(slot),
            commit_interval_ms=20,
        )

    return order


def upper(_: str = "") -> App:
    return wordcount(lambda line: line.upper().split())


def test_a_preview_on_slots_equals_a_fresh_run_while_the_live_app_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts: list[Cut] = []

    def noted(*args: object) -> object:
        found = live_cut(*args)  # type: ignore[arg-type]
        cuts.append(found.cut)
        return found

    monkeypatch.setattr("tidegate.upgrade.previews.live_cut", noted)
    monkeypatch.setattr("tidegate.upgrade.progress.REPORT_SECONDS", 0.0)
    reported: list[Progress] = []
    with closing(NotingLog(tmp_path / "log.db")) as log:
        fleet = Fleet(log, tmp_path)
        for number in range(200):
            fleet.connection.send(LINES, f"k{number % 5}", f"a b{number % 10} c")
        with fleet.running():
            wait_for(lambda: fleet.counts().get("a") == 200)
            stop = threading.Event()
            sent: list[int] = []

            def go_on() -> None:
                while not stop.wait(0.02):
                    sent.append(len(sent))
                    fleet.connection.send(LINES, f"k{len(sent) % 5}", f"n{len(sent)}")

            sender = threading.Thread(target=go_on)
            sender.start()
            try:
                wait_for(lambda: "n1" in fleet.counts())
                launcher = ReplayThreads(upper, log)
                runner = OnSlots(launcher, order_in(tmp_path, log), SystemClock(), QUICK, 2)
                preview = run_preview(
                    upper().build(),
                    log,
                    SystemClock(),
                    lambda _: runner,
                    tmp_path / "state",
                    partitions=3,
                    report=reported.append,
                )
            finally:
                stop.set()
                sender.join()
        fleet.catch_up()
        assert fleet.counts()["a"] == 200
        assert sum(fleet.counts().values()) == 600 + len(sent)
        counts = preview.counts[COUNTS.name]
        expected = fresh_rows(upper(), log, cuts[-1], None)[COUNTS.name]
        assert (counts.put, counts.equal) == (len(expected), 0)
        assert {row.key: row.after for row in preview.rows(COUNTS.name) if row.after} == expected
        assert counts.removed + counts.in_flight >= 12
        assert {order.slot for order in launcher.launched} == {0, 1}
        replaying = {(order.writer, REPLAY_OPEN_SECONDS) for order in launcher.launched}
        assert replaying <= log.noted
        assert {seconds for writer, seconds in log.noted if names.preview("wordcount") not in writer} == {
            None
        }
        assert len(reported) > 4 * preview.rounds  # also while a step runs
        assert not all(one.complete for one in reported)
        assert reported[-1].complete
        assert reported[-1].done == reported[-1].to_do > 200 + 600
        assert reported[-1].per_second > 0
        assert [topic for topic in log.names() if names.of_preview(topic)] == []
        assert not (tmp_path / "state" / names.preview("wordcount")).exists()


def test_a_recalculation_that_is_stopped_says_so_and_is_removed(tmp_path: Path) -> None:
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        fleet = Fleet(log, tmp_path)
        fleet.connection.send(LINES, "k", "a b")
        fleet.catch_up()
        launcher = ReplayThreads(upper, log)
        launcher.before = lambda order: request_stop(log, order.app_id, "test", SystemClock().now())
        runner = OnSlots(launcher, order_in(tmp_path, log), SystemClock(), QUICK, 1)
        with pytest.raises(LogError) as caught:
            run_preview(upper().build(), log, SystemClock(), lambda _: runner, tmp_path / "state")
        assert caught.value.code == "recalculation-stopped"
        assert [topic for topic in log.names() if names.of_preview(topic)] == []
