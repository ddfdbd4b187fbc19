"""Numbers for Prometheus: what the slots told last, and what this server is doing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from tidegate import names
from tidegate.clock import Clock
from tidegate.log.ensure import find_topic
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.runtime.status import GateNumbers, Landing, Numbers, Status
from tidegate.types import TopicPartition

MEDIA_TYPE = "text/plain; version=0.0.4"
RECENT_MS = 15_000
"""A slot that said nothing for so long is not counted."""

Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric and its samples."""

    name: str
    kind: str
    help: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)


def recent(log: Log, app: str, now: int) -> tuple[dict[int, Numbers], dict[int, Landing]]:
    """What the slots of an app told last, of the newest epoch that told anything; and where those run that
    landed within the hour that is kept."""
    partition = TopicPartition(names.status(app), 0)
    found = find_topic(log, partition.topic)
    if found is None:
        return {}, {}
    start = int(found.starts[0])
    numbers: dict[int, Numbers] = {}
    landings: dict[int, Landing] = {}
    for batch in read_between(log, partition, start, int(log.ends([partition])[partition])):
        for value in batch.column(3).to_pylist():
            with suppress(msgspec.DecodeError):  # of another version
                told = msgspec.json.decode(value, type=Status)
                if isinstance(told, Numbers):
                    numbers[told.slot] = told
                elif isinstance(told, Landing):
                    landings[told.slot] = told
    epoch = max((one.epoch for one in numbers.values()), default=0)
    fresh = {slot: one for slot, one in numbers.items() if one.epoch == epoch and one.at >= now - RECENT_MS}
    return fresh, {slot: one for slot, one in landings.items() if slot in fresh and one.epoch == epoch}


def families(log: Log, apps: Iterable[str], clock: Clock) -> list[Family]:
    """Of all apps."""
    now = clock.now()
    slots = _Slots()
    gates = _Gates(now)
    for app in apps:
        numbers, _ = recent(log, app, now)
        slots.take(app, numbers)
        gates.take(app, numbers)
    return [*slots.all, *gates.all]


def as_text(found: Iterable[Family]) -> str:
    """In the text format of Prometheus."""
    return "".join(line for family in found for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
    for labels, value in family.samples:
        named = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        yield f"{family.name}{{{named}}} {value:.10g}\n" if named else f"{family.name} {value:.10g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class _Slots:
    def __init__(self) -> None:
        self._records = Family("tidegate_records_total", "counter", "Records that a slot has processed.")
        self._rate = Family("tidegate_records_per_second", "gauge", "Records that a slot processes now.")
        self._lag = Family("tidegate_lag_records", "gauge", "Records that a slot has before it.")
        self._skipped = Family("tidegate_skipped_total", "counter", "Records that were skipped or put aside.")
        self._nulls = Family(
            "tidegate_null_values_total", "counter", "Records without a value that a step ignored."
        )
        self._tasks = Family("tidegate_tasks", "gauge", "Stream tasks of a slot.")
        self.all = [self._records, self._rate, self._lag, self._skipped, self._nulls, self._tasks]

    def take(self, app: str, numbers: dict[int, Numbers]) -> None:
        for slot, told in sorted(numbers.items()):
            labels = {"app": app, "slot": str(slot)}
            for family, value in (
                (self._records, told.records),
                (self._rate, told.per_second),
                (self._lag, told.lag),
                (self._skipped, told.skipped),
                (self._nulls, told.null_values),
            ):
                family.samples.append((labels, value))
            for state in ("running", "restoring"):
                self._tasks.samples.append(({**labels, "state": state}, getattr(told, state)))


_GATES = {
    "paused": ("paused_keys", "gauge", "Keys with a pause of their own."),
    "held": ("held_events", "gauge", "Events that wait."),
    "bytes": ("held_bytes", "gauge", "Bytes of the events that wait."),
    "drained": ("drained_total", "counter", "Events that waited and went out."),
    "stale": ("stale_commands_total", "counter", "Commands that were too old when they came."),
    "refused": ("refused_commands_total", "counter", "Commands that nobody can use."),
    "beyond": ("beyond_max_held_total", "counter", "Events that came when as many waited as should."),
}


class _Gates:
    def __init__(self, now: int) -> None:
        self._now = now
        self._plain = {
            field: Family(f"tidegate_gate_{name}", kind, told) for field, (name, kind, told) in _GATES.items()
        }
        self._everyone = Family("tidegate_gate_everyone_paused", "gauge", "1 while the whole gate is paused.")
        self._oldest = Family(
            "tidegate_gate_oldest_held_seconds", "gauge", "How long the oldest event that waits has done so."
        )
        self.all = [*self._plain.values(), self._everyone, self._oldest]

    def take(self, app: str, numbers: dict[int, Numbers]) -> None:
        by_gate: dict[str, list[GateNumbers]] = {}
        for told in numbers.values():
            for name, gate in told.gates.items():
                by_gate.setdefault(name, []).append(gate)
        for name, parts in sorted(by_gate.items()):
            labels = {"app": app, "gate": name}
            for field_name, family in self._plain.items():
                family.samples.append((labels, sum(getattr(part, field_name) for part in parts)))
            self._everyone.samples.append((labels, float(any(part.everyone for part in parts))))
            since = min((part.oldest for part in parts if part.oldest is not None), default=self._now)
            self._oldest.samples.append((labels, max(0, self._now - since) / 1000))
