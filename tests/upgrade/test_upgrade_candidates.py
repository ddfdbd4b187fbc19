"""Two upgrades at once, and one after another that was given up: one wins, and its rows are right."""

from __future__ import annotations

import pytest
from tests.upgrade import versions
from tests.upgrade.stories import STORY, send
from tests.upgrade.test_upgrade_killed import started, upgrade_once
from tests.upgrade.upgraded import check_live, check_upgraded, seen
from tests.upgrade.versions import manifest_of

from tidegate import TidegateError
from tidegate.log.faultpoints import installed
from tidegate.runtime.topics.control import read_control
from tidegate.runtime.topics.upgrades import upgrade_of

STEPS = [f"upgrade.{number}" for number in range(1, 9)] + ["recalculate.2", "recalculate.3", "commit.5"]


@pytest.mark.parametrize("step", STEPS)
def test_one_of_two_upgrades_wins_and_the_other_ends_with_an_error(step: str) -> None:
    with started() as d:
        before, known = {"out": seen(d.log, "out")}, manifest_of(d.log)
        begun: list[str] = []

        def second(point: str) -> None:
            if point == step and not begun:
                begun.append(point)
                upgrade_once(d, versions.chained(2), "two")

        with installed(second), pytest.raises(TidegateError) as lost:
            upgrade_once(d, versions.chained(3))
        assert begun
        assert lost.value.code == "generation-replaced", lost
        assert "start again" in lost.value.hint
        entry = upgrade_of(read_control(d.log, "shop"))
        assert entry is not None
        if step in ("upgrade.7", "upgrade.8"):  # the first one was decided: both are published, one by one
            assert entry.before == 2
            before = {}
        check_upgraded(d.log, versions.chained(2), entry, before, known)
        d._app = versions.chained(2)
        send(d, STORY[40:])
        d.run()
        check_live(d, versions.chained(2), "out")
