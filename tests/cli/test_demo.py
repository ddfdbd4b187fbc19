"""`tidegate demo --only-log` runs by itself, checks its own sums, and leaves a log to look into."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from tidegate import LogError, connect
from tidegate.cli.demo import log_run as demo_run
from tidegate.cli.demo.log_run import ORDERS, TOTALS, Totals
from tidegate.cli.demo.logs import FileLog

pytestmark = pytest.mark.slow


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_run, "TRANSACTIONS", 4)


def test_the_demo_tells_its_story_and_leaves_a_log(run: Run, tmp_path: Path) -> None:
    out = run("demo", "--only-log", "--folder", "here").out
    assert out.count("  ok  ") == 5
    assert "fenced by a newer one" in out
    assert all(line.strip().isprintable() for line in out.splitlines())
    log = f"sqlite:///{tmp_path}/here/log.db"
    assert f"tidegate topics tail orders --log {log} --from-start --limit 5" in out
    tail = run("topics", "tail", "orders", "--log", log, "--from-start", "--limit", "5")
    assert len(tail.out.splitlines()) == 5
    with connect(log) as connection:
        rows = connection.rows(TOTALS)
        assert sum(total.orders for total in rows.values()) == sum(1 for _ in connection.read(ORDERS))
        assert not {"ghost"} & rows.keys()


def test_a_folder_in_use_is_left_alone(run: Run, tmp_path: Path, small: None) -> None:
    figures = run("demo", "--only-log", "--folder", "here", "--json").json
    assert figures["log"] == f"sqlite:///{tmp_path}/here/log.db"
    assert (figures["orders"], figures["records_after"]) == (3500, figures["rows"])
    before = (tmp_path / "here" / "log.db").read_bytes()
    assert "[folder-in-use]" in run("demo", "--only-log", "--folder", "here", code=1).err
    assert (tmp_path / "here" / "log.db").read_bytes() == before


def test_the_same_orders_come_each_time(run: Run, small: None) -> None:
    rows = []
    for folder in ("a", "b"):
        run("demo", "--only-log", "--folder", folder)
        with connect(f"sqlite:///{folder}/log.db") as connection:
            rows.append({key: (row.orders, row.cents) for key, row in connection.rows(TOTALS).items()})
    assert rows[0] == rows[1]


def twice(orders: Iterable[Any]) -> list[Any]:
    return [order for order in orders for _ in (0, 1)]


@pytest.mark.parametrize("fault", ["doubled", "lost", "wrong-total", "no-fence"])
def test_a_sum_that_is_off_fails_loudly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: None, fault: str
) -> None:
    append, write_totals = demo_run._append, demo_run._write_totals
    if fault == "doubled":
        monkeypatch.setattr(demo_run, "_append", lambda writer, orders: append(writer, twice(orders)))
    elif fault == "lost":
        monkeypatch.setattr(demo_run, "PATIENCE_SECONDS", 1.0)
        monkeypatch.setattr(demo_run, "_append", lambda writer, orders: append(writer, orders[1:]))
    elif fault == "wrong-total":
        wrong = {"customer-0001": Totals(1, 1)}
        monkeypatch.setattr(demo_run, "_write_totals", lambda *given: write_totals(given[0], given[1], wrong))
    else:
        monkeypatch.setattr("tidegate.log.sqlite.writer.check_epoch", lambda *_: None)
    with pytest.raises(LogError) as error:
        demo_run.run(FileLog(tmp_path / "log.db"))
    assert error.value.code == "demo-failed"
