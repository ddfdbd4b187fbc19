"""What `benchmarks.runtime` reads off the log, and what it reports for a number that it could not measure."""

from __future__ import annotations

import json

import pytest
from benchmarks.apps.runtime_apps import ORDERS
from benchmarks.report import Report
from benchmarks.runtime_orders import fill, key_of
from benchmarks.runtime_watch import Commit, commits, steady
from rich.console import Console

from tidegate.log.positions import Position, TaskId, position_row, positions_topic
from tidegate.log.records import to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.types import TopicPartition


def log_with_positions(rows: list[tuple[int, int, int]]) -> SqliteLog:
    """A log in memory with positions of one app: partition, next offset, time."""
    log = SqliteLog()
    log.create(positions_topic("app"))
    for partition, offset, at in rows:
        position = Position(sources={ORDERS.name: {partition: offset}})
        row = position_row(TaskId("main", 1, 0, partition), position, at)
        log.append(TopicPartition("app-positions", 0), to_batch([row]))
    return log


def test_the_rate_leaves_out_everything_before_the_first_commit_that_moved() -> None:
    found = [Commit(0, 0), Commit(5000, 100), Commit(5000, 200), Commit(6000, 1200), Commit(7000, 2200)]
    assert steady(found) == 1000


def test_a_single_commit_has_no_rate() -> None:
    with pytest.raises(ValueError, match="too few records"):
        steady([Commit(0, 0), Commit(1000, 500), Commit(1000, 900)])


def test_commits_are_summed_over_tasks_as_they_come() -> None:
    log = log_with_positions([(0, 0, 1), (1, 0, 1), (0, 30, 2), (1, 10, 3), (1, 20, 4)])
    found = list(commits(log, "app", 50, lambda: True))
    assert found == [Commit(1, 0), Commit(1, 0), Commit(2, 30), Commit(3, 40), Commit(4, 50)]
    log.close()


def test_an_app_that_ends_early_is_an_error() -> None:
    log = log_with_positions([(0, 30, 2)])
    with pytest.raises(RuntimeError, match="ended after 30 of 50 records"):
        list(commits(log, "app", 50, lambda: False))
    log.close()


def test_every_order_lands_in_one_partition_and_every_key_comes_once_in_a_round() -> None:
    log = SqliteLog()
    log.create(TopicSpec(ORDERS.name, 4))
    fill(log, 1000, partitions=4, keys=100)
    ends = log.ends([TopicPartition(ORDERS.name, number) for number in range(4)])
    assert sum(ends.values()) == 1000
    assert all(ends.values())
    assert len({key_of(number, 100) for number in range(100)}) == 100
    log.close()


def test_a_number_that_was_not_measured_misses_its_target_with_a_reason() -> None:
    report = Report(
        "runtime", {"system": "Linux", "processor": "", "cores": 2, "memory_gib": 1, "python": "3"}
    )
    report.missing("ours to theirs", "x", ">= 5", "theirs is not installed")
    [result] = json.loads(report.as_json())["results"]
    assert result == {
        "name": "ours to theirs (theirs is not installed)",
        "value": None,
        "unit": "x",
        "target": ">= 5",
        "holds": False,
    }
    console = Console(width=120)
    with console.capture() as captured:
        console.print(report.table())
    assert "not measured" in captured.get()
    assert "NO" in captured.get()
