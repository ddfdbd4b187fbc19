"""What former generations left is deleted, and nothing else; and the list of generations shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.upgrade.stories import Killed
from tests.upgrade.test_upgrade import ORDERS, TOTALS, shop
from tests.upgrade.test_upgrade_refused import sent

from tidegate import App, ConfigError, UpgradeError
from tidegate.log.faultpoints import installed
from tidegate.log.positions import read_positions
from tidegate.testing import Driver
from tidegate.upgrade.consent import Consent
from tidegate.upgrade.finish import finish
from tidegate.upgrade.listing import generations

ADMITTED = "admitted-orders"


def gated(*, kept: bool) -> App:
    """An app with two gates; the second version has neither."""
    app = App("shop")
    orders = app.stream(ORDERS)
    if kept:
        orders = orders.gate("door").gate("named", admitted=ADMITTED)
    orders.sum("sums", int).to(TOTALS)
    return app


def upgraded(d: Driver) -> None:
    sent(d)
    d.upgrade(shop(800))
    d.run()


def test_only_the_active_generation_is_left(tmp_path: Path) -> None:
    with Driver(shop(), partitions=2) as d:
        upgraded(d)
        assert "shop-sums-changelog" in d.log.names()
        done = finish(d.log, "shop", d.clock, tmp_path)
        assert (done.generations, done.topics, done.positions) == ([1], ["shop-sums-changelog"], 2)
        assert "shop-sums-changelog" not in d.log.names()
        assert {task.generation for task in read_positions(d.log, "shop")} == {2}
        d.send(ORDERS, "k0", 5)
        d.run()
        d.stop()
        d.run()
        assert d.rows(TOTALS)["k0"] == 5
        d.assert_stores_match_changelogs()
        again = finish(d.log, "shop", d.clock, tmp_path)
        assert (again.topics, again.positions) == ([], 0)


@pytest.mark.parametrize("at", ["finish.1", "finish.2", "finish.3", "finish.4", "log.commit.7"])
def test_killed_at_any_step_the_next_one_does_the_rest(at: str, tmp_path: Path) -> None:
    def killed(point: str) -> None:
        if point == at:
            raise Killed

    with Driver(shop(), partitions=2) as d:
        upgraded(d)
        with installed(killed), pytest.raises(Killed):
            finish(d.log, "shop", d.clock, tmp_path)
        finish(d.log, "shop", d.clock, tmp_path)
        assert "shop-sums-changelog" not in d.log.names()
        assert {task.generation for task in read_positions(d.log, "shop")} == {2}
        assert [one.finished for one in generations(d.log, "shop")] == [True, False]
        d.stop()
        d.run()
        d.assert_stores_match_changelogs()


def test_topics_of_a_removed_gate_are_deleted_unless_the_user_named_them(tmp_path: Path) -> None:
    with Driver(gated(kept=True), partitions=2) as d:
        sent(d)
        d.upgrade(gated(kept=False))
        d.run()
        finish(d.log, "shop", d.clock, tmp_path)
        assert not [topic for topic in d.log.names() if topic.startswith(("shop-door", "shop-named"))]
        assert {ADMITTED, "orders", "totals"} <= set(d.log.names())


def test_it_is_refused_until_the_app_has_run_again(tmp_path: Path) -> None:
    with Driver(shop(), partitions=2) as d:
        sent(d)
        d.upgrade(shop(800))
        with pytest.raises(UpgradeError) as refused:
            finish(d.log, "shop", d.clock, tmp_path)
        assert refused.value.code == "not-run-since"
        d.run()
        finish(d.log, "shop", d.clock, tmp_path)


def test_it_is_refused_while_an_upgrade_is_under_way(tmp_path: Path) -> None:
    with Driver(shop(), partitions=2) as d:
        sent(d)
        with pytest.raises(UpgradeError):
            d.upgrade(shop(300), Consent())
        with pytest.raises(UpgradeError) as refused:
            finish(d.log, "shop", d.clock, tmp_path)
        assert refused.value.code == "upgrade-open"
        found = generations(d.log, "shop")
        assert [(one.state, one.upgrade) for one in found] == [("active", ""), ("candidate", "waiting")]
        assert found[1].differences["totals"].removed == 6


def test_an_app_that_never_ran_has_nothing_to_finish(tmp_path: Path) -> None:
    with Driver(shop(), partitions=2) as d:
        with pytest.raises(ConfigError) as refused:
            finish(d.log, "shop", d.clock, tmp_path)
        assert refused.value.code == "never-started"
        assert generations(d.log, "shop") == []


def test_the_list_shows_what_changed_and_what_is_left(tmp_path: Path) -> None:
    with Driver(shop(), partitions=2) as d:
        upgraded(d)
        first, second = generations(d.log, "shop")
        assert (first.generation, first.state, first.finished) == (1, "former", False)
        assert first.left == ["shop-sums-changelog"]
        assert first.began is not None
        assert (second.generation, second.state, second.upgrade) == (2, "active", "done")
        assert second.kinds == ["logic"]
        assert (second.differences["totals"].removed, second.left) == (1, [])
        finish(d.log, "shop", d.clock, tmp_path)
        assert generations(d.log, "shop")[0].left == []
