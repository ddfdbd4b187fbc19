"""What is asked before an upgrade: nothing is written before the consent, and with it the upgrade is done."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.upgrade.test_upgrade import ORDERS, TOTALS, shop
from tests.upgrade.versions import PARTITIONS, RATES, all_ends

from tidegate import App, TableTopic, UpgradeError
from tidegate.testing import Driver
from tidegate.types import Offset, TopicPartition
from tidegate.upgrade.consent import Consent

CALLS = TableTopic("calls", int)


def rates(limit: int | None) -> App:
    app = App("shop")
    rows = app.stream(RATES)
    (rows if limit is None else rows.filter(lambda rate: rate is not None and rate < limit)).count(
        "changes"
    ).to(TOTALS)
    return app


def counted(*, calls: bool) -> App:
    app = shop()
    if calls:
        app.stream(ORDERS).count("calls").to(CALLS)
    return app


def purge(d: Driver) -> None:
    for number in range(PARTITIONS):
        partition = TopicPartition("orders", number)
        d.log.purge(partition, Offset(d.log.ends([partition])[partition]))


def nothing(_: Driver) -> None:
    pass


def lose(d: Driver) -> None:
    d.log.delete("totals")


YES, REMOVE = Consent(yes=True, max_removed=1), Consent(removals=frozenset(["calls"]))
Asked = tuple[Callable[[], App], Callable[[], App], Callable[[Driver], None], str, Consent]
ASKED: dict[str, Asked] = {
    "history cut": (shop, lambda: shop(400), purge, "records of orders were deleted", YES),
    "compacted source": (lambda: rates(None), lambda: rates(400), nothing, "rates is compacted", YES),
    "lost sink": (shop, lambda: shop(400), lose, "topic totals was deleted", YES),
    "removed sink": (
        lambda: counted(calls=True),
        lambda: counted(calls=False),
        nothing,
        "no step writes to calls any more",
        REMOVE,
    ),
}


def run_until(d: Driver, happens: Callable[[Driver], None]) -> None:
    """Run the old version over six orders and rates, stop it, and let it happen."""
    for number in range(6):
        d.send(ORDERS, f"k{number}", number * 100)
        d.send(RATES, f"k{number}", number * 100)
    d.run()
    d.stop()
    happens(d)


@pytest.mark.parametrize("name", ASKED)
def test_nothing_is_written_before_the_consent(name: str) -> None:
    old, new, happens, text, consent = ASKED[name]
    with Driver(old(), partitions=PARTITIONS) as d:
        run_until(d, happens)
        before = all_ends(d.log)
        with pytest.raises(UpgradeError) as asked:
            d.upgrade(new(), Consent())
        assert (asked.value.code, text in asked.value.message) == ("upgrade-waits", True)
        assert all_ends(d.log) == before
        entry = d.upgrade(new(), consent)
        assert entry is not None
        assert entry.state == "done"
        expected = {f"k{number}": number * 100 for number in range(6)}
        match name:
            case "history cut":
                assert d.rows(TOTALS) == {}
            case "compacted source":
                assert d.rows(TOTALS) == dict.fromkeys(("k0", "k1", "k2", "k3"), 1)
            case "lost sink":
                assert d.rows(TOTALS) == {key: cents for key, cents in expected.items() if cents < 400}
            case _:
                assert (d.rows(TOTALS), d.rows(CALLS)) == (expected, {})
        d.send(ORDERS, "more", 1)
        d.run()
        assert ("more" in d.rows(TOTALS)) == (name != "compacted source")
