"""What the old version still does after the decision does not count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.upgrade import versions
from tests.upgrade.stories import STORY, send
from tests.upgrade.test_upgrade_killed import upgrade_once
from tests.upgrade.upgraded import check_live
from tests.upgrade.versions import PARTITIONS, all_ends

from tidegate import FencedError, UpgradeError
from tidegate.errors import TidegateError
from tidegate.log.faultpoints import installed
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.takeover import take_over
from tidegate.state.manager import Limits
from tidegate.testing import Driver


@pytest.mark.parametrize(
    "processed", [False, True], ids=["sleeps before its records", "sleeps before its commit"]
)
def test_slots_of_the_old_version_that_wake_after_the_decision_write_nothing(*, processed: bool) -> None:
    with Driver(versions.chained(1), partitions=PARTITIONS, slots=2) as d:
        send(d, STORY[:40])
        d.run()
        old = list(d._open)
        if processed:
            send(d, STORY[40:])
            for slot in old:
                slot.step(0)
        upgrade_once(d, versions.chained(3))
        if not processed:
            send(d, STORY[40:])
        ends = all_ends(d.log)
        for slot in old:
            with pytest.raises(FencedError):
                for _ in range(3):
                    slot.step(0)
                    slot.commit()
            slot.drop()
        assert all_ends(d.log) == ends
        d._open, d._run, d._app = [], None, versions.chained(3)
        d.run()
        check_live(d, versions.chained(3), "out")


@pytest.mark.parametrize("step", [f"upgrade.{number}" for number in (3, 4, 5, 6, 7, 8)])
def test_slots_of_the_old_version_are_fenced_at_every_step(step: str) -> None:
    with Driver(versions.chained(1), partitions=PARTITIONS, slots=2) as d:
        send(d, STORY[:40])
        d.run()
        old = list(d._open)
        woken: list[str] = []

        def wake(point: str) -> None:
            if point == step and not woken:
                woken.append(point)
                send(d, STORY[40:])
                ends = all_ends(d.log)
                for slot in old:
                    with pytest.raises(FencedError):
                        for _ in range(3):
                            slot.step(0)
                            slot.commit()
                    slot.drop()
                assert all_ends(d.log) == ends

        with installed(wake):
            upgrade_once(d, versions.chained(3))
        assert woken
        d._open, d._run, d._app = [], None, versions.chained(3)
        d.run()
        check_live(d, versions.chained(3), "out")


def test_a_start_of_the_old_version_that_was_prepared_before_the_switch_is_refused(tmp_path: Path) -> None:
    with Driver(versions.chained(1), partitions=PARTITIONS) as d:
        send(d, STORY[:40])
        d.run()
        d.stop()
        prepared = prepare(versions.chained(1).build(), d.log, d.clock, partitions=PARTITIONS)
        claim = take_over(d.log, "shop", 1, d.clock)
        upgrade_once(d, versions.chained(3))
        ends = all_ends(d.log)
        attempts: list[tuple[Callable[[], object], str]] = [
            (lambda: prepared.slots(tmp_path, 1, Limits(sync=False)), "generation-replaced"),
            (lambda: claim.renew(d.log, d.clock), "generation-replaced"),
            (lambda: claim.begin_attempt(0, 2, 0), "fenced"),
            (lambda: take_over(d.log, "shop", 1, d.clock), "generation-replaced"),
        ]
        for attempt, code in attempts:
            with pytest.raises(TidegateError) as refused:
                attempt()
            assert refused.value.code == code
        assert all_ends(d.log) == ends
        with pytest.raises(UpgradeError) as former:
            d.run()
        assert former.value.code == "former-generation"
        assert all_ends(d.log) == ends
