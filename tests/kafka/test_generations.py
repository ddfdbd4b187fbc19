"""An unchanged component keeps its tasks in the next generation of its app, on Kafka too."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kafka.conftest import OpenLog
from tests.runtime.generations import (
    MORE,
    OUT,
    A,
    B,
    folders,
    positions,
    switch,
    version_1,
    version_2,
    worked,
)

from tidegate import UpgradeError
from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection

pytestmark = pytest.mark.slow


def test_an_unchanged_component_reads_nothing_again_in_the_next_generation(
    open_own: OpenLog, tmp_path: Path
) -> None:
    log, clock = open_own(), SystemClock()
    connection = Connection(log, partitions=2, clock=clock)
    for number in range(30):
        connection.send(A, f"k{number}", number)
        connection.send(B, f"k{number % 4}", number)
    assert worked(log, version_1(), clock, tmp_path) == 30
    before, kept, rows = positions(log), folders(tmp_path), connection.rows(OUT)
    switch(log, version_2(), clock)
    assert worked(log, version_2(), clock, tmp_path) == 30, "the records of the new component, and no other"
    after = positions(log)
    assert {task: after[task].sources for task in before} == {
        task: position.sources for task, position in before.items()
    }
    assert {name: inode for name, inode in folders(tmp_path).items() if name in kept} == kept
    assert connection.rows(OUT) == rows
    assert sum(connection.rows(MORE).values()) == sum(range(30))
    with pytest.raises(UpgradeError, match="former-generation"):
        worked(log, version_1(), clock, tmp_path)
