"""Topologies over topics with schemas: bad records meet their policy, a registry that is away does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from tests.runtime.dead_letters import append_raw, dead_letter
from tests.serde.registry_server import RegistryServer

from tidegate import App, Avro, JsonSchema, RegistryError, SerdeError, TableTopic, Topic
from tidegate.runtime.driver.check_registry import check_registry
from tidegate.serde.registry_settings import registry_settings, use_registry
from tidegate.testing.driver import Commit, Driver
from tidegate.topology.node import OnError


class Order(Struct, frozen=True):
    id: int
    cents: int
    customer: str = ""


class Totals(Struct, frozen=True):
    orders: int = 0
    cents: int = 0


FORMS: list[Any] = [Avro, JsonSchema]
each_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
BAD = {
    "no-magic-byte": b"not framed",
    "truncated": b"\0\0\0",
    "unknown-schema": b"\0\0\0\0\x63\x02\x02\0",
}


def add(total: Totals, order: Order) -> Totals:
    return Totals(total.orders + 1, total.cents + order.cents)


class Shop:
    """Orders by id, totals by customer, with schemas everywhere."""

    def __init__(self, form: Any, on_error: OnError | None = None) -> None:
        self.orders: Topic[str, Order] = Topic("orders", form[Order]())
        self.totals: TableTopic[str, Totals] = TableTopic("totals", form[Totals](), key=form[str]())
        self.app = App("errors")
        stream = self.app.stream(self.orders, on_error=on_error)
        by_customer = stream.group_by("by-customer", lambda order: order.customer, key=self.totals.key_serde)
        by_customer.aggregate("sums", Totals, add, value=self.totals.value_serde).to(self.totals)


@each_form
@pytest.mark.parametrize("batches", [True, False])
def test_values_pass_topics_stores_repartitions_and_crashes(
    server: RegistryServer, form: Any, batches: bool
) -> None:
    shop = Shop(form)
    with Driver(shop.app, partitions=2, batches=batches) as d:
        for number in range(20):
            d.send(shop.orders, f"{number}", Order(number, 10, f"c{number % 3}"))
        d.crash(at=Commit.LOG_COMMITTED, elsewhere=True)
        d.run()
        assert d.rows(shop.totals) == {"c0": Totals(7, 70), "c1": Totals(7, 70), "c2": Totals(6, 60)}
        d.assert_stores_match_changelogs()
    assert set(server.subjects) == {"orders-value", "totals-key", "totals-value"}


@each_form
@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("code", BAD)
def test_an_undecodable_record_becomes_a_dead_letter(
    server: RegistryServer, form: Any, batches: bool, code: str
) -> None:
    shop = Shop(form, "dead-letter")
    with Driver(shop.app, batches=batches) as d:
        d.send(shop.orders, "1", Order(1, 10, "ada"))
        append_raw(d, "orders", b"2", BAD[code])
        d.send(shop.orders, "3", Order(3, 20, "ada"))
        d.run()
        record, reported = dead_letter(d)
        assert (record.key, record.value, reported["tidegate.error.code"]) == (b"2", BAD[code], code)
        assert d.rows(shop.totals) == {"ada": Totals(2, 30)}


@pytest.mark.parametrize("batches", [True, False])
def test_an_undecodable_record_is_skipped_or_stops_by_its_policy(
    server: RegistryServer, batches: bool
) -> None:
    for policy in ("skip", "stop"):
        shop = Shop(Avro, policy)
        with Driver(shop.app, batches=batches) as d:
            d.send(shop.orders, "1", Order(1, 10, "ada"))
            append_raw(d, "orders", b"2", BAD["truncated"])
            d.send(shop.orders, "3", Order(3, 20, "ada"))
            if policy == "stop":
                with pytest.raises(SerdeError, match="truncated") as error:
                    d.run()
                assert error.value.position == ("orders", 0, 1)
            else:
                d.run()
                assert d.rows(shop.totals) == {"ada": Totals(2, 30)}
            assert d.dead_letters() == []


@each_form
@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("policy", ["stop", "skip", "dead-letter"])
def test_a_registry_that_is_away_loses_no_record_under_any_policy(
    server: RegistryServer, form: Any, batches: bool, policy: OnError
) -> None:
    shop = Shop(form, policy)
    with Driver(shop.app, batches=batches) as d:
        d.send(shop.orders, "1", Order(1, 10, "ada"), Order(2, 20, "bob"), Order(3, 30, "ada"))
        server.stop()
        fresh = use_registry({**server.settings, "timeout": 2})  # as a process that knows no schema yet
        for _ in range(2):
            with pytest.raises(RegistryError) as error:
                d.run()
            assert (error.value.code, error.value.retryable) == ("registry-unreachable", True)
        server.start()
        d.run()
        assert d.rows(shop.totals) == {"ada": Totals(2, 40), "bob": Totals(1, 20)}
        assert d.dead_letters() == []
        use_registry(fresh)


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
def test_a_schema_that_the_registry_refuses_stops_and_loses_no_record(
    server: RegistryServer, policy: OnError
) -> None:
    server.add("totals-value", '{"type": "record", "name": "Totals", "fields": []}')
    shop = Shop(Avro, policy)
    required = TableTopic("totals", Avro[Order]())
    app = App("errors")
    app.stream(shop.orders, on_error=policy).to(required)
    with Driver(app) as d:
        d.send(shop.orders, "1", Order(1, 10, "ada"))
        with pytest.raises(RegistryError, match="schema-refused"):
            d.run()
        server.subjects["totals-value"].clear()
        d.run()
        assert d.rows(required) == {"1": Order(1, 10, "ada")}
        assert d.dead_letters() == []


def test_old_records_go_through_a_newer_type(server: RegistryServer) -> None:
    class Old(Struct):
        id: int
        cents: int

    written = Topic("orders", Avro[Old](name="Order"))
    shop = Shop(Avro)
    with Driver(shop.app) as d:
        d.send(written, "1", Old(1, 10))
        d.send(shop.orders, "2", Order(2, 20, "ada"))
        d.run()
        assert d.rows(shop.totals) == {"": Totals(1, 10), "ada": Totals(1, 20)}
    assert len(server.subjects["orders-value"]) == 2


def test_a_driver_has_a_registry_of_its_own_and_restores_the_one_before() -> None:
    before = use_registry(None)
    shop = Shop(Avro)
    with Driver(shop.app, registry={"url": "mock://driver"}) as d:
        d.send(shop.orders, "1", Order(1, 10, "ada"))
        d.run()
        assert d.rows(shop.totals) == {"ada": Totals(1, 10)}
    assert registry_settings().get("url") is None
    use_registry(before)


def test_an_app_with_schemas_does_not_start_without_a_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = use_registry(None)
    plain = App("plain")
    plain.stream(Topic("in", int)).to(Topic("out", int))
    check_registry(plain.build())
    with pytest.raises(RegistryError, match="no-registry"):
        check_registry(Shop(Avro).app.build())
    use_registry({"url": "http://127.0.0.1:9"})
    check_registry(Shop(Avro).app.build())
    use_registry(before)
