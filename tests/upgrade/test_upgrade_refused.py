"""An upgrade that needs a decision, is given up, or cannot be done: nothing of it counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.upgrade.stories import Killed
from tests.upgrade.test_upgrade import ORDERS, TOTALS, shop
from tests.upgrade.versions import all_ends

from tidegate import App, Topic, UpgradeError, UserCodeError
from tidegate.log import names
from tidegate.log.faultpoints import installed
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.topics.control import read_control
from tidegate.runtime.topics.upgrades import upgrade_of
from tidegate.testing import Driver
from tidegate.testing.upgrades import upgrade_here
from tidegate.types import TopicPartition
from tidegate.upgrade.abandon import cancel
from tidegate.upgrade.consent import Consent


def sent(d: Driver) -> None:
    for number in range(9):
        d.send(ORDERS, f"k{number}", number * 100)
    d.run()


def sink_ends(d: Driver) -> dict[TopicPartition, int]:
    return {at: int(end) for at, end in all_ends(d.log).items() if at.topic == "totals"}


def state_of(d: Driver) -> str:
    entry = upgrade_of(read_control(d.log, "shop"))
    return "" if entry is None else entry.state


def test_too_many_removed_rows_wait_for_consent_and_nothing_is_published() -> None:
    with Driver(shop(), partitions=2) as d:
        sent(d)
        before = sink_ends(d)
        with pytest.raises(UpgradeError) as waits:
            d.upgrade(shop(300), Consent(yes=True))
        assert waits.value.code == "upgrade-waits"
        assert "6 of 9 rows of totals would be removed" in waits.value.message
        assert waits.value.hint == "tidegate upgrade --allow-removals totals"
        assert (state_of(d), sink_ends(d)) == ("waiting", before)
        d.run()  # the old version is in force
        assert sink_ends(d) == before
        entry = d.upgrade(shop(300), Consent(removals=frozenset(["totals"])))
        assert entry is not None
        assert (entry.state, entry.differences["totals"].removed) == ("done", 6)
        assert d.rows(TOTALS) == {"k0": 0, "k1": 100, "k2": 200}


def test_with_consent_it_goes_on_without_recalculating() -> None:
    with Driver(shop(), partitions=2) as d:
        sent(d)
        with pytest.raises(UpgradeError):
            d.upgrade(shop(300), Consent())
        steps = d.reached["recalculate.3"]
        entry = d.upgrade(shop(300), Consent(removals=frozenset(["totals"])))
        assert entry is not None
        assert (entry.generation, d.reached["recalculate.3"]) == (2, steps)


def test_cancelled_and_replaced_by_a_third_version() -> None:
    with Driver(shop(), partitions=2) as d:
        sent(d)
        with pytest.raises(UpgradeError):
            d.upgrade(shop(300), Consent())
        cancel(d.log, "shop", None, d.clock)
        assert state_of(d) == "cancelled"
        assert not any(".g2-" in topic or names.of_preview(topic) for topic in d.log.names())
        d.send(ORDERS, "k0", 7)
        d.run()
        entry = d.upgrade(shop(800))
        assert entry is not None
        assert (entry.generation, d.published(TOTALS)) == (3, [("k8", None)])
        with pytest.raises(UpgradeError) as nothing:
            cancel(d.log, "shop", None, d.clock)
        assert nothing.value.code == "no-upgrade"


def test_a_third_version_replaces_a_candidate_that_waits() -> None:
    with Driver(shop(), partitions=2) as d:
        sent(d)
        with pytest.raises(UpgradeError):
            d.upgrade(shop(300), Consent())
        entry = d.upgrade(shop(800))
        assert entry is not None
        assert (entry.generation, d.published(TOTALS)) == (3, [("k8", None)])
        assert not any(".g2-" in topic for topic in d.log.names())


def test_after_the_decision_the_old_version_is_refused_and_any_start_publishes_the_rest(
    tmp_path: Path,
) -> None:
    with Driver(shop(), partitions=2) as d:
        sent(d)
        d.stop()

        def killed(point: str) -> None:
            if point == "upgrade.7":
                raise Killed

        with installed(killed), pytest.raises(Killed):
            upgrade_once(d, shop(800), tmp_path)
        assert state_of(d) == "publishing"
        with pytest.raises(UpgradeError) as unfinished:
            prepare(shop().build(), d.log, d.clock)
        assert unfinished.value.code == "upgrade-unfinished"
        with pytest.raises(UpgradeError) as decided:
            cancel(d.log, "shop", None, d.clock)
        assert decided.value.code == "upgrade-decided"
        with pytest.raises(UpgradeError) as former:
            d.run()  # version 1, which first publishes the rest
        assert former.value.code == "former-generation"
        assert "tidegate rollback" in former.value.hint
        assert (state_of(d), "k8" in d.rows(TOTALS)) == ("done", False)
        assert not any(names.of_preview(topic) for topic in d.log.names())


def upgrade_once(d: Driver, app: App, folder: Path) -> None:
    upgrade_here(
        app, d.log, d.clock, folder, Consent(max_removed=1), partitions=2, on_error="stop", batches=True
    )


def failing(limit: int) -> App:
    def checked(cents: int) -> int:
        if cents >= limit:
            raise ValueError(cents)
        return cents

    app = App("shop")
    app.stream(ORDERS).map(checked).sum("sums", int).to(TOTALS)
    return app


def test_a_record_that_fails_ends_it_and_nothing_is_published() -> None:
    with Driver(shop(), partitions=2) as d:
        sent(d)
        before = sink_ends(d)
        with pytest.raises(UserCodeError) as failed:
            d.upgrade(failing(800))
        assert failed.value.position
        assert (state_of(d), sink_ends(d)) == ("recalculating", before)


def test_more_failures_than_before_wait_for_consent() -> None:
    with Driver(shop(), partitions=2, on_error="skip") as d:
        sent(d)
        before = sink_ends(d)
        with pytest.raises(UpgradeError) as waits:
            d.upgrade(failing(800), Consent(max_removed=1))
        assert "1 records fail in the new version, 0 in the old one" in waits.value.message
        assert sink_ends(d) == before
        d.upgrade(failing(800), Consent(yes=True, max_removed=1))
        assert d.published(TOTALS) == [("k8", None)]


def gated(name: str | None, topic: str | None = None) -> App:
    app = App("shop")
    orders = app.stream(ORDERS)
    passed = orders if name is None else orders.gate(name, admitted=topic)
    passed.sum("sums", int).to(TOTALS)
    return app


def test_a_new_gate_needs_an_empty_topic_for_what_passes() -> None:
    with Driver(gated(None), partitions=2) as d:
        sent(d)
        d.send(Topic("passed", int, partitions=2), "k", 1)
        with pytest.raises(UpgradeError) as refused:
            d.upgrade(gated("door", "passed"))
        assert refused.value.code == "admitted-not-empty"
        d.upgrade(gated("door"))
        d.send(ORDERS, "k1", 1)
        d.run()
        assert d.rows(TOTALS)["k1"] == 101


def test_a_gate_keeps_its_topics() -> None:
    with Driver(gated("door"), partitions=2) as d:
        sent(d)
        with pytest.raises(UpgradeError) as refused:
            d.upgrade(gated("door", "passed"))
        assert refused.value.code == "gate-topics-changed"
