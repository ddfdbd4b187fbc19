"""A slot that counts what it takes of the user's topics: for the embedded log and for Kafka."""

from __future__ import annotations

from pathlib import Path

from tests.waiting import wait_for

from tidegate import App, TableTopic, Topic
from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.gate.query import GateQuery
from tidegate.log.protocol import Log
from tidegate.runtime.driver.prepare import prepare

LINES = Topic("lines", str)
COUNTS = TableTopic("counts", int)


def words(line: str) -> list[str]:
    return line.split()


def app() -> App:
    made = App("counting")
    passed = made.stream(LINES).gate("door").flat_map(words)
    passed.group_by("by-word", lambda word: word).count("counted").to(COUNTS)
    return made


def count(log: Log, folder: Path) -> tuple[int, dict[str, int]]:
    """Three lines of six words and a command to the gate. How many records the slot counts then, and the
    table."""
    connection = Connection(log, partitions=1, clock=SystemClock(), owned=False)
    run = prepare(app().build(), log, SystemClock(), partitions=1)
    [slot] = run.slots(folder, 1)
    GateQuery(log, run.manifest, "door", SystemClock()).commander.pause(b"nobody")
    connection.send(LINES, "ada", "a b", "a c", "a b")

    def done() -> bool:
        slot.step(0.02)
        slot.commit()
        return COUNTS.name in log.names() and connection.rows(COUNTS) == {"a": 3, "b": 2, "c": 1}

    wait_for(done)
    counted = slot.records
    slot.close()
    return counted, dict(connection.rows(COUNTS))
