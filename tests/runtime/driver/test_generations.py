"""Generations of an app: which one runs, and what an unchanged component keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
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
from tidegate.clock import ManualClock
from tidegate.connect.connection import Connection
from tidegate.errors import FencedError, LogError, TidegateError
from tidegate.log.faultpoints import installed
from tidegate.log.protocol import Log
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import attach, prepare
from tidegate.runtime.driver.takeover import take_over
from tidegate.runtime.topics.control import ROLE, read_control, write_control

CLOCK = ManualClock()


@pytest.fixture
def log() -> Iterator[SqliteLog]:
    made = SqliteLog()
    yield made
    made.close()


@pytest.fixture
def connection(log: SqliteLog) -> Connection:
    return Connection(log, partitions=2, clock=CLOCK)


def send(connection: Connection, count: int) -> None:
    for number in range(count):
        connection.send(A, f"k{number}", number)
        connection.send(B, f"k{number % 4}", number)


def test_an_unchanged_component_reads_nothing_again_in_the_next_generation(
    log: SqliteLog, connection: Connection, tmp_path: Path
) -> None:
    send(connection, 30)
    assert worked(log, version_1(), CLOCK, tmp_path) == 30
    before, kept, rows = positions(log), folders(tmp_path), connection.rows(OUT)
    switch(log, version_2(), CLOCK)
    assert worked(log, version_2(), CLOCK, tmp_path) == 30, "the records of the new component, and no other"
    after = positions(log)
    assert {task: after[task] for task in before} == before
    assert {str(task) for task in after.keys() - before.keys()} == {"sums.g2/0_0", "sums.g2/0_1"}
    assert {name: inode for name, inode in folders(tmp_path).items() if name in kept} == kept
    assert connection.rows(OUT) == rows
    assert sum(connection.rows(MORE).values()) == sum(range(30))
    connection.send(A, "k1", 0)
    assert worked(log, version_2(), CLOCK, tmp_path) == 1
    assert sum(connection.rows(OUT).values()) == 31


def overwrite(log: Log, entries: dict[str, bytes]) -> None:
    """Replace entries of the control topic, as another program could."""
    with closing(log.writer("other")) as writer:
        write_control(writer, "shop", entries, CLOCK.now())
        writer.commit()


def refusal(log: Log, app_of: object, tmp_path: Path) -> TidegateError:
    with pytest.raises(TidegateError) as caught:
        worked(log, app_of(), CLOCK, tmp_path)  # type: ignore[operator]
    return caught.value


def test_two_supervisors_of_two_versions_do_not_replace_each_other(
    log: SqliteLog, connection: Connection, tmp_path: Path
) -> None:
    send(connection, 3)
    worked(log, version_1(), CLOCK, tmp_path)
    switch(log, version_2(), CLOCK)
    for _ in range(3):
        epoch = read_control(log, "shop").epoch(ROLE)
        refused = refusal(log, version_1, tmp_path)
        assert refused.code == "former-generation"
        assert "runs generation 2, and this is the code of generation 1" in refused.message
        assert read_control(log, "shop").epoch(ROLE) == epoch, "a refused start does not take over"
        worked(log, version_2(), CLOCK, tmp_path)
    assert read_control(log, "shop").active() == 2


POINTS = ["driver.1", "driver.2", "driver.3", "driver.4", "driver.5"]


@pytest.mark.parametrize("point", POINTS)
def test_a_version_that_was_prepared_before_a_switch_does_not_take_over(
    log: SqliteLog, connection: Connection, tmp_path: Path, point: str
) -> None:
    send(connection, 3)
    worked(log, version_1(), CLOCK, tmp_path)
    run = prepare(version_1().build(), log, CLOCK, partitions=2)
    switched: list[int] = []

    def while_it_waits(reached: str) -> None:
        if reached == point and not switched:
            switched.append(1)
            switch(log, version_2(), CLOCK)

    with installed(while_it_waits), pytest.raises((UpgradeError, FencedError)) as caught:
        run.slots(tmp_path, 1)
    expected = "generation-replaced" if point in ("driver.1", "driver.2") else "fenced"
    assert (switched, caught.value.code) == ([1], expected)
    control = read_control(log, "shop")
    assert control.active() == 2
    assert worked(log, version_2(), CLOCK, tmp_path) == 3
    assert sum(connection.rows(OUT).values()) == 3


def test_a_driver_that_regains_its_writer_looks_for_another_generation(
    log: SqliteLog, connection: Connection, tmp_path: Path
) -> None:
    send(connection, 3)
    worked(log, version_1(), CLOCK, tmp_path)
    claim = take_over(log, "shop", 1, CLOCK)
    switch(log, version_2(), CLOCK)
    with pytest.raises(UpgradeError, match="generation-replaced"):
        claim.regain(log)
    with pytest.raises(UpgradeError, match="generation-replaced"):
        claim.renew(log, CLOCK)
    claim.close()


def test_a_slot_is_attached_to_the_generation_of_its_order(
    log: SqliteLog, connection: Connection, tmp_path: Path
) -> None:
    send(connection, 3)
    worked(log, version_1(), CLOCK, tmp_path)
    switch(log, version_2(), CLOCK)
    worked(log, version_2(), CLOCK, tmp_path)
    assert attach(version_1().build(), log, CLOCK, generation=1).manifest.generation == 1
    run = attach(version_2().build(), log, CLOCK)
    assert run.manifest.generation == 2
    assert sorted({str(task) for _, task in run.tasks()}) == [
        "by-name.g1/0_0",
        "by-name.g1/0_1",
        "by-name.g1/1_0",
        "by-name.g1/1_1",
        "sums.g2/0_0",
        "sums.g2/0_1",
    ]


def test_a_manifest_of_a_newer_version_is_refused(
    log: SqliteLog, connection: Connection, tmp_path: Path
) -> None:
    send(connection, 3)
    worked(log, version_1(), CLOCK, tmp_path)
    overwrite(log, {"manifest/1": b'{"format": 3}'})
    names = log.names()
    refused = refusal(log, version_1, tmp_path)
    assert (refused.code, log.names()) == ("newer-manifest", names)
    assert "format 3" in refused.message


@pytest.mark.parametrize("damaged", [b"{", b'{"format": 2}', b'{"format": 1, "components": 7}', b"[]"])
def test_a_damaged_manifest_is_refused(
    log: SqliteLog, connection: Connection, tmp_path: Path, damaged: bytes
) -> None:
    send(connection, 3)
    worked(log, version_1(), CLOCK, tmp_path)
    overwrite(log, {"manifest/1": damaged})
    with pytest.raises(LogError, match="bad-control"):
        worked(log, version_1(), CLOCK, tmp_path)


def test_an_active_generation_without_a_manifest_is_refused(
    log: SqliteLog, connection: Connection, tmp_path: Path
) -> None:
    send(connection, 3)
    worked(log, version_1(), CLOCK, tmp_path)
    overwrite(log, {"active": b'{"generation": 7}'})
    with pytest.raises(LogError, match="no manifest of generation 7, which is active"):
        worked(log, version_1(), CLOCK, tmp_path)
