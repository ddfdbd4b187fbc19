"""Metrics for Prometheus: lag from the log, the newest numbers of slots, and numbers of this server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tidegate.gate.formats import GateNumbers
from tidegate.runtime.topics.status import Numbers
from tidegate.server.app_follower import AppState
from tidegate.server.slot_status import STATES, SlotStatus

MEDIA_TYPE = "text/plain; version=0.0.4"

Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """One metric and its samples."""

    name: str
    kind: str
    help: str
    samples: list[tuple[Labels, float]] = field(default_factory=list)


def families(apps: Iterable[AppState], now: int) -> list[Family]:
    """The metrics of all apps; `now` is the wall time."""
    slots = _Slots()
    gates = _Gates(now)
    for app in apps:
        found = slots_of(app)
        slots.take(app, found)
        numbers = {number: one.numbers for number, one in found.items() if one.numbers is not None}
        gates.take(app.app, numbers)
    return [*slots.all, *gates.all]


def slots_of(app: AppState) -> dict[int, SlotStatus]:
    """The slots of the plan, and others that published something in the same or a newer epoch."""
    newest = max(app.plan.epoch, app.statuses.newest())
    reporting = {number for number, one in app.statuses.slots.items() if number >= 0 and one.epoch == newest}
    return {number: app.slot(number) for number in sorted({slot.slot for slot in app.plan.slots} | reporting)}


def as_text(found: Iterable[Family]) -> str:
    """Render in the text format of Prometheus."""
    return "".join(line for family in found for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}\n# TYPE {family.name} {family.kind}\n"
    for labels, value in family.samples:
        named = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        yield f"{family.name}{{{named}}} {value:.10g}\n" if named else f"{family.name} {value:.10g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_COUNTED = {
    "records": ("records_total", "Records that a slot took of source topics."),
    "skipped": ("skipped_total", "Records that were skipped or sent to the dead-letter topic."),
    "null_values": ("null_values_total", "Records without a value that a step ignored."),
    "dead_letters": ("dead_letters_total", "Records that were sent to the dead-letter topic."),
    "rebuilt": ("rebuilt_stores_total", "Stores that were discarded and rebuilt from their changelog."),
    "emptied": ("emptied_stores_total", "Stores without changelog that were emptied."),
    "gaps": ("store_gaps_total", "Stores without changelog that were kept with a gap."),
    "batches_taken_apart": (
        "batches_taken_apart_total",
        "Batches that failed as a whole and were processed record by record.",
    ),
}


class _Slots:
    def __init__(self) -> None:
        self._counted = {
            name: Family(f"tidegate_{metric}", "counter", help_) for name, (metric, help_) in _COUNTED.items()
        }
        self._rate = Family("tidegate_records_per_second", "gauge", "Records that a slot processes now.")
        self._lag = Family(
            "tidegate_lag_records",
            "gauge",
            "Lag of the tasks of a slot in records; slot '': tasks that no slot has.",
        )
        self._tasks = Family("tidegate_tasks", "gauge", "Stream tasks of a slot by state.")
        self._restarts = Family(
            "tidegate_slot_restarts_total",
            "counter",
            "Starts of a slot's job after its first in an epoch.",
        )
        self._failures = Family(
            "tidegate_slot_failures_total",
            "counter",
            "Errors that ended jobs of slots since this server started to follow the app.",
        )
        self._warnings = Family(
            "tidegate_warnings_total",
            "counter",
            "Warnings of slots since this server started to follow the app.",
        )
        self.all = [
            *self._counted.values(),
            self._rate,
            self._lag,
            self._tasks,
            self._restarts,
            self._failures,
            self._warnings,
        ]

    def take(self, app: AppState, slots: dict[int, SlotStatus]) -> None:
        planned = {slot.slot: len(slot.tasks) for slot in app.plan.slots}
        for number, slot in slots.items():
            labels = {"app": app.app, "slot": str(number)}
            self._take_numbers(labels, slot.numbers, is_live=slot.state(app.now) in ("running", "restoring"))
            counts = slot.tasks(app.now, planned.get(number, 0))
            for state in STATES:
                self._tasks.samples.append(({**labels, "state": state}, counts[state]))
            self._restarts.samples.append((labels, app.restarts(number)))
        for home, lag in sorted(app.lag_by_slot().items(), key=str):
            self._lag.samples.append(({"app": app.app, "slot": "" if home is None else str(home)}, lag))
        for family, found in ((self._failures, app.statuses.failures), (self._warnings, app.statuses.warned)):
            for code, count in sorted(found.items()):
                family.samples.append(({"app": app.app, "code": code}, count))

    def _take_numbers(self, labels: Labels, numbers: Numbers | None, *, is_live: bool) -> None:
        if numbers is not None:
            for name, family in self._counted.items():
                family.samples.append((labels, getattr(numbers, name)))
            self._rate.samples.append((labels, numbers.per_second if is_live else 0.0))


_GATES = {
    "paused": ("paused_keys", "gauge", "Keys with a pause of their own."),
    "held": ("held_events", "gauge", "Events that wait."),
    "bytes": ("held_bytes", "gauge", "Bytes of held events."),
    "drained": ("drained_total", "counter", "Held events that were released."),
    "stale": ("stale_commands_total", "counter", "Commands ignored because they were too old."),
    "refused": ("refused_commands_total", "counter", "Commands that could not be decoded."),
    "beyond": ("beyond_max_held_total", "counter", "Events that came when max_held was reached."),
}


class _Gates:
    def __init__(self, now: int) -> None:
        self._now = now
        self._plain = {
            field: Family(f"tidegate_gate_{name}", kind, help_)
            for field, (name, kind, help_) in _GATES.items()
        }
        self._gate_wide = Family("tidegate_gate_paused", "gauge", "1 while the whole gate is paused.")
        self._oldest = Family("tidegate_gate_oldest_held_seconds", "gauge", "Age of the oldest held event.")
        self.all = [*self._plain.values(), self._gate_wide, self._oldest]

    def take(self, app: str, numbers: dict[int, Numbers]) -> None:
        by_gate: dict[str, list[GateNumbers]] = {}
        for slot in numbers.values():
            for name, gate in slot.gates.items():
                by_gate.setdefault(name, []).append(gate)
        for name, parts in sorted(by_gate.items()):
            labels = {"app": app, "gate": name}
            for field_name, family in self._plain.items():
                family.samples.append((labels, sum(getattr(part, field_name) for part in parts)))
            self._gate_wide.samples.append((labels, float(any(part.gate_wide for part in parts))))
            since = min((part.oldest for part in parts if part.oldest is not None), default=self._now)
            self._oldest.samples.append((labels, max(0, self._now - since) / 1000))
