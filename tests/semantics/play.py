"""Scenarios played in tidegate's driver, step by step or all at once, and in Kafka Streams."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.semantics.topologies import NUMBERS, TEXTS, TOPOLOGIES, Inputs

from tidegate import TableTopic, TidegateError, Topic
from tidegate.log.records import Row, to_batch
from tidegate.testing import Driver
from tidegate.testing.broker.java import run_java
from tidegate.types import TopicPartition

HERE = Path(__file__).parent
SCENARIOS, RECORDED, PROGRAM = (
    HERE / name for name in ("scenarios.json", "kafka_streams.json", "Scenarios.java")
)
_STEP = re.compile(r"(\S+) (\S*)=(\S*) @(\d+)")

Sent = list[list[Any]]
"""Key, value and timestamp of each record that a step sent; or ["error", its code]."""


@dataclass(frozen=True, slots=True)
class Step:
    topic: str
    key: str | None
    value: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    topology: str
    steps: list[Step]

    @property
    def topics(self) -> set[str]:
        return {step.topic for step in self.steps}


def scenarios() -> list[Scenario]:
    """All of them, as scenarios.json has them."""
    found = json.loads(SCENARIOS.read_text())
    return [
        Scenario(name, one["topology"], [_step(text) for text in one["steps"]]) for name, one in found.items()
    ]


def recorded() -> dict[str, Any]:
    """What Kafka Streams did when it was last recorded."""
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    return found


def computed_now(folder: Path) -> dict[str, Any]:
    """What Kafka Streams does now."""
    program = run_java([PROGRAM], [str(SCENARIOS)], folder)
    try:
        return program.wait_for(lambda event: "scenarios" in event, 120.0)
    finally:
        program.kill()


def played(scenario: Scenario, *, batches: bool, at_once: bool = False) -> list[Sent]:
    """What tidegate sends at each step, or for all of them at once."""
    inputs = Inputs(_topics(scenario))
    made = TOPOLOGIES[scenario.topology](inputs)
    numbers = "count" in scenario.topology or "sum" in scenario.topology
    out: Any = _out(scenario, numbers=numbers)
    made.to(out)
    sent: list[Sent] = []
    with Driver(inputs.app, batches=batches) as driver:
        driver.run()
        for steps in [scenario.steps] if at_once else [[step] for step in scenario.steps]:
            before = len(driver.records(out))
            try:
                for step in steps:
                    _append(driver, step)
                driver.run()
            except TidegateError as error:
                return [*sent, [["error", error.code]]]
            records = sorted(driver.records(out), key=lambda record: record.offset)[before:]
            sent.append([[record.key, record.value, record.timestamp] for record in records])
    return sent


def flat(steps: Sequence[Sent]) -> Sent:
    return [record for step in steps for record in step]


def _step(text: str) -> Step:
    found = _STEP.fullmatch(text)
    assert found, text
    topic, key, value, at = found.groups()
    return Step(topic, _or_none(key), _or_none(value), int(at))


def _or_none(text: str) -> str | None:
    return None if text == "~" else text


def _topics(scenario: Scenario) -> dict[str, Any]:
    """A topic with null keys must be one of events; one with null values must be one of rows."""
    tables = {"other"} if "joined with a tally" not in scenario.topology else set()
    tables |= {"in"} if scenario.topology.startswith("table") else set()
    found: dict[str, Any] = {}
    for name in ("in", "other", "more"):
        keyless = any(step.topic == name and step.key is None for step in scenario.steps)
        empty = any(step.topic == name and step.value is None for step in scenario.steps)
        rows = name in tables or (empty and not keyless)
        found[name] = TableTopic(name, str) if rows else Topic(name, str)
    return found


def _out(scenario: Scenario, *, numbers: bool) -> Any:
    if numbers:
        return NUMBERS
    keyless = any(step.key is None for step in scenario.steps) and not scenario.topology.startswith("table")
    return Topic("out", str) if keyless else TEXTS


def _append(driver: Driver, step: Step) -> None:
    key, value = (None if text is None else text.encode() for text in (step.key, step.value))
    driver.log.append(TopicPartition(step.topic, 0), to_batch([Row(key, value, step.at)]))
