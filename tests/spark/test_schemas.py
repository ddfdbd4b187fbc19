"""Topics with schemas on real Spark: executors learn the registry from their orders, and wait for it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.serde.registry_server import RegistryServer
from tests.waiting import HANG_SECONDS, wait_for

from tidegate.config.config import Config, load_config
from tidegate.connect.connection import Connection
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.serde.registry_settings import use_registry
from tidegate.spark.frames import read_topic
from tidegate.spark.running import Running
from tidegate.spark.write import write_topic

LOGIN = "ada:c4n4ry"
APP = """
from importlib.resources import files
from msgspec import Struct
from tidegate import App, Avro, JsonSchema, TableTopic, Topic

class Order(Struct, frozen=True):
    id: int
    cents: int

class Totals(Struct, frozen=True):
    orders: int = 0
    cents: int = 0

SCHEMA = files("schema_shop") / "order.avsc"
ORDERS = Topic("orders", Avro[Order](SCHEMA, subject="record-name"))
TOTALS = TableTopic("totals", JsonSchema[Totals]())
COPY = Topic("copy", Avro[Order](name="copied.Order"))

def add(total: Totals, order: Order) -> Totals:
    return Totals(total.orders + 1, total.cents + order.cents)

app = App("schema-shop")
app.stream(ORDERS, on_error="skip").aggregate("sums", Totals, add).to(TOTALS)
"""
SCHEMA = """{"type": "record", "name": "shop.Order", "fields": [
  {"name": "id", "type": "int"}, {"name": "cents", "type": "long"}]}"""


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    with RegistryServer(login=LOGIN) as server:
        yield server


@pytest.fixture
def config(registry: RegistryServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    package = tmp_path / "schema_shop"
    package.mkdir()
    (package / "__init__.py").write_text(APP)
    (package / "order.avsc").write_text(SCHEMA)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    monkeypatch.setenv("SHOP_REGISTRY_LOGIN", LOGIN)
    section = {**registry.settings, "basic.auth.user.info": {"env": "SHOP_REGISTRY_LOGIN"}}
    yield load_config({"log": "sqlite:///log.db", "registry": section}, environ={}, folder=tmp_path)
    use_registry(None)
    sys.modules.pop("schema_shop", None)


def sent(log: Connection, count: int) -> Any:
    shop = importlib.import_module("schema_shop")
    for number in range(count):
        log.send(shop.ORDERS, f"c{number % 3}", shop.Order(number, 10))
    return shop


def test_slots_learn_the_registry_from_their_orders(
    start: Callable[..., Running], log: Connection, registry: RegistryServer
) -> None:
    shop = sent(log, 30)
    run = start("schema_shop:app", until_caught_up=True)
    assert run.wait(HANG_SECONDS), run.view.failures
    assert log.rows(shop.TOTALS) == {f"c{number}": shop.Totals(10, 100) for number in range(3)}
    assert set(registry.subjects) == {"shop.Order", "totals-value"}


def test_slots_wait_for_a_registry_that_is_away(
    start: Callable[..., Running], log: Connection, registry: RegistryServer
) -> None:
    """I1, with a policy that would skip what cannot be read."""
    shop = sent(log, 30)
    registry.stop()
    run = start("schema_shop:app", until_caught_up=True)
    wait_for(lambda: any(one.code == "registry-unreachable" for _, one in run.view.failures))
    registry.start()
    assert run.wait(HANG_SECONDS)
    assert run.state is DriverState.STOPPED
    assert sum(total.orders for total in log.rows(shop.TOTALS).values()) == 30


def test_frames_get_the_registry_and_plans_do_not_show_it(
    spark: SparkSession, config: Config, log: Connection, registry: RegistryServer
) -> None:
    shop = sent(log, 9)
    frame = read_topic(spark, shop.ORDERS, config=config)
    assert sorted(row.value.id for row in frame.collect()) == list(range(9))
    write_topic(frame, shop.COPY, config=config)
    assert sorted(record.value.id for record in log.read(shop.COPY)) == list(range(9))
    assert "copy-value" in registry.subjects
    java: Any = frame._jdf
    plan = java.queryExecution().toString()
    assert "c4n4ry" not in plan
