"""A stop that drains, on Kafka: its internal topics hold markers of transactions, too."""

from __future__ import annotations

from pathlib import Path

from tests.kafka.conftest import OpenLog
from tests.runtime.fleet import Fleet
from tests.runtime.tills import Shop, assert_each_sale_once, tills
from tests.waiting import wait_for


def test_a_drained_app_has_one_event_for_each_record_that_it_took(open_own: OpenLog, tmp_path: Path) -> None:
    shop = Shop(Fleet(open_own(), tmp_path, lambda: tills(seconds_each=0.001)))
    with shop.selling(), shop.fleet.running(2):
        wait_for(lambda: len(shop.sold()) > 60, every=0.2)
        result = shop.drain()
        assert (result.ran, result.drained, result.left, result.slots) == (True, True, [], 2)
    assert_each_sale_once(shop)
    assert len(shop.taken()) < shop.sent, "sales went on meanwhile"
