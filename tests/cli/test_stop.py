"""`tidegate stop --drain`: nothing is left in internal topics, or the command fails and names what is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.runtime.fleet import Fleet
from tests.runtime.tills import APP, Shop, assert_each_sale_once, tills
from tests.waiting import wait_for

from tidegate.log.sqlite.log import SqliteLog

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """The tills on the log that the commands use."""
    (tmp_path / ".tidegate").mkdir()
    with closing(SqliteLog(tmp_path / ".tidegate" / "log.db")) as log:
        yield Shop(Fleet(log, tmp_path, lambda: tills(seconds_each=0.01)))


def test_a_drained_app_has_ended_with_nothing_left(run: Run, shop: Shop) -> None:
    with shop.fleet.running(2):
        wait_for(lambda: len(shop.sold()) > 3)
        shown = run("stop", APP, "--drain", "--json").json
    assert shown == {"app": APP, "epoch": 1, "slots_ended": 2, "drained": True}
    assert_each_sale_once(shop)
    assert run("stop", APP, "--drain").out == "tills: is not running\n"


def test_an_app_that_does_not_drain_in_time_is_stopped_and_the_command_fails(run: Run, shop: Shop) -> None:
    with shop.fleet.running(2):
        wait_for(lambda: len(shop.sold()) > 3, every=0.001)
        error = run("stop", APP, "--drain", "--wait", "0", "--json", code=1).json["error"]
    assert error["code"] == "not-drained"
    assert "records of its internal topics not processed: tills-by-" in error["message"]
    shop.fleet.catch_up()
    assert sorted(shop.sold()) == list(range(50))
