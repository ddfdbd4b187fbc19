"""Transactions, a follower, an abort, a zombie and compaction together, on the embedded log."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.log import log_story
from tests.log.log_story import TOTALS, Totals

from tidegate import connect
from tidegate.log.protocol import Log
from tidegate.log.sqlite.log import SqliteLog

pytestmark = pytest.mark.slow


class InFile:
    """The embedded log in one file, compacted only on request."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def open(self) -> Log:
        return SqliteLog(self._file, upkeep=False)

    def compact(self) -> None:
        with closing(SqliteLog(self._file)) as log:
            log.compact(TOTALS.name)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_story, "TRANSACTIONS", 4)  # the same story, shorter


def test_every_order_is_counted_once_and_in_order(tmp_path: Path) -> None:
    figures = log_story.run(InFile(tmp_path / "log.db"))
    assert (figures.orders, figures.aborted) == (39_500, 500)
    assert "was fenced by a newer one" in figures.fenced
    assert figures.table_records > figures.rows == figures.records_after


def test_the_same_orders_come_each_time(tmp_path: Path, small: None) -> None:
    rows = []
    for name in ("a.db", "b.db"):
        log_story.run(InFile(tmp_path / name))
        with connect(f"sqlite:///{tmp_path / name}") as connection:
            rows.append({key: (row.orders, row.cents) for key, row in connection.rows(TOTALS).items()})
    assert rows[0] == rows[1]


def twice(orders: Iterable[Any]) -> list[Any]:
    return [order for order in orders for _ in (0, 1)]


@pytest.mark.parametrize("fault", ["doubled", "lost", "wrong-total", "no-fence"])
def test_the_story_notices_each_fault_of_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: None, fault: str
) -> None:
    # Faults of the log, made where the story calls it: the story's own checks are what is tested.
    append, write_totals = log_story._append, log_story._write_totals
    if fault == "doubled":
        monkeypatch.setattr(log_story, "_append", lambda writer, orders: append(writer, twice(orders)))
    elif fault == "lost":
        monkeypatch.setattr(log_story, "PATIENCE_SECONDS", 1.0)
        monkeypatch.setattr(log_story, "_append", lambda writer, orders: append(writer, orders[1:]))
    elif fault == "wrong-total":
        wrong = {"customer-0001": Totals(1, 1)}
        monkeypatch.setattr(
            log_story, "_write_totals", lambda *given: write_totals(given[0], given[1], wrong)
        )
    else:
        monkeypatch.setattr("tidegate.log.sqlite.writer.check_epoch", lambda *_: None)
    with pytest.raises(AssertionError):
        log_story.run(InFile(tmp_path / "log.db"))
