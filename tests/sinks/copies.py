"""Copies of a driver's topics in a database, and what they should be."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa
from tests.models.app import EVENTS, Closed, Started, StepDone
from tests.sinks.app import TOTALS, Total

from tidegate.errors import SerdeError
from tidegate.log.reads import fold, read_between
from tidegate.log.records import rows_of
from tidegate.log.route import partitions_of
from tidegate.models import from_columns
from tidegate.models.row import decode_row
from tidegate.sinks.database import Database
from tidegate.sinks.running import make_sink
from tidegate.sinks.settings import checked_settings
from tidegate.sinks.sink import Rereading, Sink
from tidegate.testing import Driver
from tidegate.types import TopicPartition

OWN = "tidegate_"


class Copies:
    """The sinks of one database."""

    def __init__(self, driver: Driver, place: Mapping[str, str]) -> None:
        self.driver = driver
        self.place = dict(place)
        self.noticed: list[Rereading | SerdeError] = []
        self._schema = place.get("schema")
        self._reader = Database(place["url"], Path())
        self._open: list[Database] = [self._reader]
        self._loaded: dict[str, sa.Table] = {}

    def sink(self, **settings: Any) -> Sink:
        """A new sink, as another process would have it."""
        given = {"models": ["workflows"], "tables": ["customer-totals"], **self.place, **settings}
        topology = self.driver._app.build()
        checked = checked_settings("[sinks.copies]", given)
        sink, database = make_sink(
            self.driver.log, checked, Path(), topology, self.driver.clock, self.noticed.append
        )
        self._open.append(database)
        return sink

    def catch_up(self, sink: Sink | None = None, **settings: Any) -> Sink:
        """Apply all that there is."""
        found = sink or self.sink(**settings)
        found.follow(threading.Event(), until_caught_up=True)
        return found

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table as an application reads them, without our own columns."""
        found = [dict(row) for row in self.raw(table)]
        return [{name: row[name] for name in row if not name.startswith(OWN)} for row in found]

    def raw(self, table: str) -> list[Mapping[str, Any]]:
        """All columns."""
        with self._reader.transaction() as connection:
            if table not in self._loaded:
                metadata = sa.MetaData(schema=self._schema)
                self._loaded[table] = sa.Table(table, metadata, autoload_with=connection)
            loaded = self._loaded[table]
            found: Any = connection.execute(sa.select(loaded).order_by(*loaded.primary_key.columns))
            return list(found.mappings())

    def execute(self, statement: str) -> None:
        """Run a statement; `{schema}` is where the tables are."""
        schema = "" if self._schema is None else f'"{self._schema}".'
        with self._reader.transaction() as connection:
            connection.execute(sa.text(statement.format(schema=schema)))

    def check(self) -> None:
        """Database == fold of the topics, for the model and the totals."""
        stored = {row["id"]: from_columns(row) for row in self.raw("workflows")}
        assert stored == {
            key.decode(): msgspec.structs.replace(decode_row(value), outcomes=())
            for key, value in self.folded("shop-workflows-changelog").items()
        }
        totals = {row["key"]: (row["orders"], row["name"]) for row in self.raw("customer_totals")}
        rows = self.driver.rows(_topic(self.driver, "customer-totals"))
        assert totals == {key: (value.orders, value.name) for key, value in rows.items()}

    def check_positions(self) -> None:
        """The totals are the fold of their topic up to the positions beside them."""
        positions = {
            TopicPartition(row["topic"], row["partition"]): row["next_offset"]
            for row in self.raw("tidegate_positions")
            if row["topic"] == TOTALS.name
        }
        offsets = {row["key"]: row["tidegate_offset"] for row in self.raw("customer_totals")}
        found: dict[str, int] = {}
        for partition, end in positions.items():
            assert end <= self.driver.log.ends([partition])[partition]
            found |= _newest(self.driver, partition, end)
        assert offsets == found

    def folded(self, topic: str) -> dict[bytes, bytes]:
        log = self.driver.log
        parts = (fold(log, partition).items() for partition in partitions_of(log.describe(topic)))
        return {key: value for part in parts for key, (value, _) in part}

    def close(self) -> None:
        for database in self._open:
            database.close()


def _topic(driver: Driver, name: str) -> Any:
    nodes = driver._app.build().nodes.values()
    return next(node.topic for node in nodes if node.topic is not None and node.topic.name == name)


def _newest(d: Driver, partition: TopicPartition, end: int) -> dict[str, int]:
    """The offset of the newest record of each key up to an offset, for keys that are not deleted."""
    found: dict[str, int] = {}
    for batch in read_between(d.log, partition, 0, end):
        for row in rows_of(batch):
            assert row.key is not None
            if row.value is None:
                found.pop(row.key.decode(), None)
            else:
                found[row.key.decode()] = row.offset
    return found


def change(d: Driver, seed: int, count: int = 40) -> None:
    """Some changes of totals and workflows: new, changed and deleted ones."""
    rng = random.Random(seed)
    for number in range(count):
        key = f"k{rng.randrange(12)}"
        d.send(TOTALS, key, None if rng.random() < 0.3 else Total(number, name=f"s{seed}"))
        events: list[Any] = [Started(f"t{number}"), StepDone("pack", float(number)), Closed()]
        d.send(EVENTS, key, rng.choice(events))
    d.run()
