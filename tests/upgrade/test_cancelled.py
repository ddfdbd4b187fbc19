"""An upgrade that is cancelled while it runs: its process ends with who cancelled it, and the old version
goes on."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest
from tests.runtime.fleet import COUNTS, LINES, QUICK, Fleet
from tests.upgrade.test_on_slots import ReplayThreads, order_in, upper
from tests.upgrade.test_upgrade import ORDERS, TOTALS, shop
from tests.upgrade.test_upgrade_refused import sent, sink_ends
from tests.waiting import wait_for

from tidegate import App, UpgradeError
from tidegate.clock import SystemClock
from tidegate.log import names
from tidegate.log.faultpoints import installed
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.slot.job import SlotJob
from tidegate.runtime.topics.control import read_control
from tidegate.runtime.topics.decisions import DecidedBy, decisions_of
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.runtime.topics.upgrades import UpgradeEntry, upgrade_of
from tidegate.state.manager import Limits
from tidegate.testing import Driver
from tidegate.upgrade.abandon import cancel
from tidegate.upgrade.candidate import attach_candidate
from tidegate.upgrade.consent import Consent
from tidegate.upgrade.runners import InProcess, OnSlots
from tidegate.upgrade.upgrades import UpgradeResources, Wait, give_up, upgrade

ADA = DecidedBy("ada", "wrong limit", "cli")
STEPS = [*(f"upgrade.{number}" for number in range(3, 7)), "recalculate.2", "recalculate.3", "commit.5"]


def resources(d: Driver, app: App, folder: Path, wait: Wait = give_up) -> UpgradeResources:
    runner = InProcess(folder, limits=Limits(sync=False))
    return UpgradeResources(
        app.build(), d.log, d.clock, lambda _: runner, folder, partitions=2, consent=Consent(), wait=wait
    )


def check_cancelled(d: Driver, error: UpgradeError) -> None:
    assert error.code == "upgrade-cancelled"
    assert "to generation 2 was cancelled by ada (cli): wrong limit" in error.message
    assert "generation 1 is active" in error.message
    entry = upgrade_of(read_control(d.log, "shop"))
    assert entry is not None
    assert entry.state == "cancelled"
    assert not any(".g2-" in topic or names.of_preview(topic) for topic in d.log.names())
    d.send(ORDERS, "k0", 7)
    d.run()  # the old version
    assert d.rows(TOTALS)["k0"] == 7
    assert len(d.rows(TOTALS)) == 9


@pytest.mark.parametrize("step", STEPS)
def test_cancelled_at_any_step_it_ends_with_who_cancelled_it(step: str, tmp_path: Path) -> None:
    with Driver(shop(), partitions=2) as d:
        sent(d)
        d.stop()
        before = sink_ends(d)
        cancelled: list[UpgradeEntry] = []

        def cancel_once(point: str) -> None:
            if point == step and not cancelled:
                cancelled.append(cancel(d.log, "shop", tmp_path, d.clock, ADA))

        with installed(cancel_once), pytest.raises(UpgradeError) as ended:
            upgrade(resources(d, shop(850), tmp_path))
        assert sink_ends(d) == before
        check_cancelled(d, ended.value)


def test_cancelled_while_it_waits_for_consent(tmp_path: Path) -> None:
    with Driver(shop(), partitions=2) as d:
        sent(d)
        d.stop()

        def wait(entry: UpgradeEntry) -> bool:
            assert entry.state == "waiting"
            cancel(d.log, "shop", None, d.clock, ADA)
            return True

        with pytest.raises(UpgradeError) as ended:
            upgrade(resources(d, shop(300), tmp_path, wait))
        check_cancelled(d, ended.value)
        [decision] = decisions_of(read_control(d.log, "shop"))
        assert (decision.kind, decision.generation, decision.by) == ("cancel", 2, ADA)


class CandidateThreads(ReplayThreads):
    """Slots of the recalculation of a candidate as threads."""

    def launch(self, order: SlotOrder) -> None:
        self.launched.append(order)
        assert order.replay is not None
        clock = SystemClock()
        run, _ = attach_candidate(self._app().build(), self._log, clock, order.replay, small_batch=10)
        self.before(order)
        for _ in SlotJob(order, run, self._log, clock, self.intervals).run():
            pass


def test_cancelled_while_slots_recalculate(tmp_path: Path) -> None:
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        fleet = Fleet(log, tmp_path)
        fleet.connection.send(LINES, "k", "a b")
        fleet.catch_up()
        launcher, begun, go_on = CandidateThreads(upper, log), threading.Event(), threading.Event()

        def hold(_order: SlotOrder) -> None:
            begun.set()
            go_on.wait(60)

        launcher.before = hold
        runner = OnSlots(launcher, order_in(tmp_path, log), SystemClock(), QUICK, 1)
        used = UpgradeResources(
            upper().build(), log, SystemClock(), lambda _: runner, tmp_path / "state", partitions=3
        )
        ended: list[BaseException] = []

        def run() -> None:
            try:
                upgrade(used)
            except BaseException as error:  # noqa: BLE001 - checked below
                ended.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert begun.wait(60)
        cancel(log, "wordcount", None, SystemClock(), ADA)
        go_on.set()
        thread.join(60)
        assert isinstance(ended[0], UpgradeError)
        assert (ended[0].code, "by ada (cli)" in ended[0].message) == ("upgrade-cancelled", True)
        wait_for(lambda: not any(names.of_preview(topic) for topic in log.names()))
        fleet.connection.send(LINES, "k", "c")
        fleet.catch_up()  # the old version
        assert fleet.connection.rows(COUNTS) == {"a": 1, "b": 1, "c": 1}
