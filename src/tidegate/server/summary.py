"""One sample of everything on a log: the frame that the dashboard shows.

1 read the ends of all topics; 2 of each app take its state, as its follower has it, and count its dead
letters now and then; 3 of each gate take its totals, as the replicas have them. Nothing waits: an app or gate
that cannot be read in time is shown with the reason, as `trouble`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from tidegate.errors import LogError, TidegateError
from tidegate.gate.formats import GateTotals
from tidegate.server.app_events import AppEvent
from tidegate.server.app_follower import AppState
from tidegate.server.app_report import DeadLetters, report
from tidegate.server.summary_history import SeriesName
from tidegate.server.task_numbers import AppNumbers, TaskMeters
from tidegate.server.topic_ends import TopicEnds, TopicNumbers
from tidegate.server.topology_graph import gate_sources
from tidegate.topology.manifest import Manifest
from tidegate.topology.node import NodeKind

if TYPE_CHECKING:
    from tidegate.server.serving import Serving

STATE_SECONDS = 1.0
DEAD_LETTER_SECONDS = 2.0
_LEFT_OUT = ("app", "warnings", "recalculating", "waits_for", "last_heard", "records_per_second")
"""Fields of a report that a frame has in another form, or that change all the time."""


class Sample(msgspec.Struct, frozen=True):
    """The numbers of one time."""

    content: dict[str, Any]
    events: list[AppEvent]
    """All that are kept, of all apps."""
    series: dict[SeriesName, float | None]


class Summary:
    """Takes samples. Not thread-safe."""

    def __init__(self, server: Serving) -> None:
        self._server = server
        self._ends = TopicEnds(server.log)
        self._meters = TaskMeters()
        self._dead_letters: dict[str, tuple[float, DeadLetters]] = {}

    def sample(self) -> Sample:
        """Take one sample. Raises TidegateError if the log cannot be read at all."""
        manifests = self._server.apps.all()
        topics = self._ends.sample()
        self._meters.forget(manifests)
        events: list[AppEvent] = []
        apps: dict[str, dict[str, Any]] = {}
        tasks: dict[str, dict[str, Any]] = {}
        gates: dict[str, dict[str, Any]] = {}
        for name, manifest in manifests.items():
            apps[name], tasks[name], happened = self._app(manifest)
            gates[name] = {gate: self._gate(manifest, gate, topics) for gate in manifest.gates}
            events += happened
        content = {
            "server": {
                "streams": self._server.streams.count,
                "trouble": self._server.replicas.troubles(),
                "topics_left_out": self._ends.left_out,
            },
            "apps": apps,
            "topics": topics,
            "tasks": tasks,
            "gates": gates,
            "totals": _totals(apps, gates),
        }
        return Sample(content, sorted(events, key=lambda one: one.at), _series(topics, apps, tasks, gates))

    def _app(self, manifest: Manifest) -> tuple[dict[str, Any], dict[str, Any], list[AppEvent]]:
        """The numbers of an app and of its tasks, and its events."""
        try:
            state, has_lag = self._state(manifest)
            dead_letters = self._count_dead_letters(manifest.app)
        except TidegateError as error:
            trouble = {"code": error.code, "message": error.message}
            return {"state": None, "generation": manifest.generation, "trouble": trouble}, {}, []
        numbers = self._meters.sample(state, _sources(manifest))
        return (
            _shown(manifest, state, dead_letters, numbers if has_lag else None),
            numbers.tasks,
            state.events,
        )

    def _state(self, manifest: Manifest) -> tuple[AppState, bool]:
        """The state of an app, and whether its lag is known."""
        try:
            return self._server.followers.state(manifest, STATE_SECONDS), True
        except LogError as error:
            if error.code != "no-such-topic":
                raise
        return self._server.followers.state(manifest, STATE_SECONDS, with_lag=False), False

    def _count_dead_letters(self, app: str) -> DeadLetters:
        now = time.monotonic()
        counted_at, known = self._dead_letters.get(app, (float("-inf"), None))
        if known is None or now - counted_at >= DEAD_LETTER_SECONDS:
            known = self._server.reports.dead_letters(app)
            self._dead_letters[app] = now, known
        return known

    def _gate(self, manifest: Manifest, name: str, topics: dict[str, TopicNumbers]) -> dict[str, Any]:
        admitted = topics.get(manifest.gates[name].admitted)
        sources = [topics[topic] for topic in gate_sources(manifest, name) if topic in topics]
        rates = {
            "rate": 0.0 if admitted is None else admitted.rate,
            "in_rate": round(sum(one.rate for one in sources), 1),
        }
        try:
            with self._server.gate(manifest, name, {}, seconds=0.0) as (gate, _):
                totals = gate.totals()
        except TidegateError as error:
            unknown = dict.fromkeys(GateTotals().shown())
            return {**unknown, **rates, "trouble": {"code": error.code, "message": error.message}}
        return {**totals.shown(), **rates, "trouble": None}


def _shown(
    manifest: Manifest, state: AppState, dead_letters: DeadLetters, numbers: AppNumbers | None
) -> dict[str, Any]:
    """An app as a frame shows it. Without numbers its lag is unknown, since a topic is missing."""
    whole = report(state, dead_letters)
    shown: dict[str, Any] = {
        name: getattr(whole, name) for name in whole.__struct_fields__ if name not in _LEFT_OUT
    }
    entry = state.upgrade
    return {
        **shown,
        "generation": manifest.generation,
        "lag": None if numbers is None else whole.lag,
        "rate": 0.0 if numbers is None else numbers.rate,
        "lag_seconds": None if numbers is None else numbers.lag_seconds,
        "lag_at_least": numbers is not None and numbers.lag_at_least,
        "failures": state.statuses.failures.total(),
        "warnings": state.statuses.warned.total(),
        "upgrade": None
        if entry is None
        else {
            "generation": entry.generation,
            "state": entry.state,
            "questions": len(entry.questions) if entry.state == "waiting" else 0,
            "progress": whole.recalculating,
        },
        "trouble": None,
    }


def _sources(manifest: Manifest) -> set[str]:
    """The topics whose records count for the rate of an app."""
    kinds = (NodeKind.SOURCE, NodeKind.TABLE, NodeKind.MODEL_REQUESTS)
    return {node.topic for node in manifest.nodes if node.topic and node.kind in kinds}


def _totals(apps: dict[str, dict[str, Any]], gates: dict[str, dict[str, Any]]) -> dict[str, int]:
    """What needs attention, over all apps."""
    known = [one for one in apps.values() if one["trouble"] is None]
    parts = [gate for of_app in gates.values() for gate in of_app.values()]
    return {
        "paused": sum(one["paused"] or 0 for one in parts),
        "held": sum(one["held"] or 0 for one in parts),
        "gates_paused": sum(bool(one["gate_wide"]) for one in parts),
        "failures": sum(one["failures"] for one in known),
        "dead_letters": sum(one["dead_letters"].records for one in known),
        "tasks_restoring": sum(one["tasks_restoring"] for one in known),
        "upgrades_waiting": sum(
            one["upgrade"] is not None and one["upgrade"]["state"] == "waiting" for one in known
        ),
        "troubles": len(apps) - len(known),
    }


def _series(
    topics: dict[str, TopicNumbers],
    apps: dict[str, dict[str, Any]],
    tasks: dict[str, dict[str, Any]],
    gates: dict[str, dict[str, Any]],
) -> dict[SeriesName, float | None]:
    """The values of one step of the history."""
    found: dict[SeriesName, float | None] = {}
    found |= {("topics", name, "rate"): one.rate for name, one in topics.items()}
    for app, numbers in apps.items():
        found |= {("apps", app, what): numbers.get(what) for what in ("rate", "lag", "lag_seconds")}
    for app, of_app in tasks.items():
        for name, task in of_app.items():
            found |= {
                ("tasks", app, name, what): getattr(task, what) for what in ("rate", "lag", "lag_seconds")
            }
    for app, of_app in gates.items():
        for name, gate in of_app.items():
            found |= {("gates", app, name, what): gate[what] for what in ("held", "paused", "rate")}
    return found
