"""What an upgrade leaves that was killed after it had published everything: the next start removes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.upgrade.stories import Killed
from tests.upgrade.test_model_publication import DIFFS, first, second
from tests.upgrade.test_upgrade import ORDERS, TOTALS
from tests.upgrade.test_upgrade_killed import upgrade_once

from tidegate import App
from tidegate.clock import Clock
from tidegate.log import names
from tidegate.log.faultpoints import installed
from tidegate.log.protocol import Log
from tidegate.runtime.topics.control import read_control
from tidegate.runtime.topics.upgrades import upgrade_of
from tidegate.testing import Driver
from tidegate.upgrade.finish import finish
from tidegate.upgrade.publication import complete

STAGED = "shop-m.g2-changelog"


def shop(version: int) -> App:
    """A table and a model."""
    app = App("shop")
    app.stream(ORDERS).filter(lambda cents: cents < 1000 // version).sum("sums", int).to(TOTALS)
    app.model("m", source=DIFFS, initial=dict)(first if version == 1 else second)
    return app


def leftovers(log: Log) -> list[str]:
    return [topic for topic in log.names() if names.of_preview(topic) or topic == STAGED]


def killed_before_the_removal(d: Driver) -> None:
    """Kill an upgrade to version 2 between `done` and the removal."""
    d.send(ORDERS, "k0", 1)
    d.send(DIFFS, "changed", {"x": 1})
    d.run()
    done: list[bool] = []

    def kill(point: str) -> None:
        entry = upgrade_of(read_control(d.log, "shop")) if point == "remove-preview.1" else None
        if entry is not None and entry.state == "done":
            done.append(True)
            raise Killed

    d.stop()
    with installed(kill), pytest.raises(Killed):
        upgrade_once(d, shop(2))
    assert done
    assert STAGED in leftovers(d.log)
    assert names.control(names.upgrade("shop")) in leftovers(d.log)
    d._app = shop(2)


def start(d: Driver, _: Path) -> None:
    d.run()


def finished(d: Driver, folder: Path) -> None:
    unfinished = leftovers(d.log)
    d._app = shop(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.testing.driver.complete", _nothing)
        d.run()  # as an earlier version of tidegate started it
    assert leftovers(d.log) == unfinished
    finish(d.log, "shop", d.clock, folder)


def _nothing(_log: Log, _app: str, _clock: Clock) -> None:
    pass


@pytest.mark.parametrize("comes", [start, finished])
def test_the_next_command_removes_it(comes: Callable[[Driver, Path], None], tmp_path: Path) -> None:
    with Driver(shop(1), partitions=2) as d:
        killed_before_the_removal(d)
        comes(d, tmp_path)
        assert leftovers(d.log) == []
        d.send(ORDERS, "k0", 5)
        d.run()
        assert d.rows(TOTALS)["k0"] == 6
        d.assert_stores_match_changelogs()


def test_the_throw_away_app_of_an_upgrade_under_way_is_not_removed() -> None:
    with Driver(shop(1), partitions=2) as d:
        d.send(ORDERS, "k0", 1)
        d.run()
        d.upgrade(shop(2))

        def killed(point: str) -> None:
            if point == "upgrade.5":
                raise Killed

        with installed(killed), pytest.raises(Killed):
            upgrade_once(d, shop(3))
        assert leftovers(d.log)
        before = leftovers(d.log)
        complete(d.log, "shop", d.clock)
        assert leftovers(d.log) == before
