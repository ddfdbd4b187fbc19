"""Make the plan of an app. Nothing is created or written, in the log and elsewhere.

1 read what is visible of the control topic: an app that never ran gets a plan, too; 2 check that the source
topics exist and have the partitions that they had; 3 compare the running generation with the code as it is
now; 4 look up what would be read and published, what gates hold, and what must be decided.
"""

from __future__ import annotations

from collections import defaultdict

from tidegate.changes.changes import Changes
from tidegate.changes.compare import compare
from tidegate.changes.refusal import refusal, shares_nothing
from tidegate.clock import Clock
from tidegate.gate.query import GateQuery
from tidegate.log.protocol import Log
from tidegate.runtime.driver.app_topics import check_sources
from tidegate.runtime.driver.first_start import check_first_start
from tidegate.runtime.topics.control import Control
from tidegate.runtime.topics.manifests import active_manifest, code_of, manifest_of, visible_control
from tidegate.runtime.topics.upgrades import Question, next_generation
from tidegate.topology.code import Code
from tidegate.topology.generations import continued
from tidegate.topology.graph import Topology
from tidegate.topology.growth import grown
from tidegate.topology.identity import identified
from tidegate.topology.manifest import Manifest, make_manifest
from tidegate.topology.node import SOURCES
from tidegate.topology.older import brought_up_to_date
from tidegate.upgrade.component_plans import Sources, component_plan, topic_names
from tidegate.upgrade.plan import Note, State, UpgradePlan
from tidegate.upgrade.questions import former_generation, notes, questions
from tidegate.upgrade.topics_now import TopicsNow


def make_plan(log: Log | None, topology: Topology, clock: Clock) -> UpgradePlan:
    """Return the plan of an app on a log; without a log, that of its first start. Raises the error that a
    start would raise: `no-such-topic`, `partitions-changed`, `partition-count`, `other-policy`,
    `newer-manifest`, `bad-control`, `id-taken`, and those of a first start."""
    control = Control() if log is None else visible_control(log, topology.app)
    known = active_manifest(control)
    if log is not None:
        check_sources(log, topology)
    if known is None:
        return _first_start(log, topology)
    assert log is not None  # noqa: S101 - there is a manifest in it
    return _later_start(log, topology, control, known, clock)


def _first_start(log: Log | None, topology: Topology) -> UpgradePlan:
    if log is not None:
        check_first_start(log, topology)
    now = TopicsNow(log, topic_names(topology, None))
    code = Code(topology.module)
    made = made_manifest(topology, now, None, code, 1)
    nothing = Manifest(topology.app, 0, {}, {}, {}, {}, {}, {}, [])
    changes = compare(nothing, made, code.entry(), code.entry())
    sources = Sources(topology, None, made, now, {})
    components = [component_plan(sources, change) for change in changes.components]
    missing = sorted(topic for topic in made.sources if now.info(topic) is None) if log is None else []
    found = [Note("no-log", f"there is no log yet, and so no topic {', '.join(missing)}")] if missing else []
    first = Note(
        "first-start", f"{topology.app} never ran on this log: it would start, and read from the beginning"
    )
    return UpgradePlan(
        topology.app, "changes", 0, 1, components, changes, [], [first, *found, *notes(code.entry(), made)]
    )


def _later_start(
    log: Log, topology: Topology, control: Control, running: Manifest, clock: Clock
) -> UpgradePlan:
    topology = identified(topology, running)
    now = TopicsNow(log, topic_names(topology, running))
    code = Code(topology.module)
    generation = next_generation(control)
    made = made_manifest(topology, now, running, code, generation)
    known = brought_up_to_date(topology, running, made)
    made = continued(made, known)
    changes = compare(known, made, code_of(control, running.generation), code.entry())
    if shares_nothing(changes):
        raise refusal(changes)
    gates = {name: GateQuery(log, known, name, clock).totals() for name in known.gates}
    sources = Sources(topology, known, made, now, gates)
    components = [component_plan(sources, change) for change in changes.components]
    open_questions = questions(sources, changes, components)
    if not changes.nothing:
        open_questions += _former(control, running, made)
    return UpgradePlan(
        topology.app,
        _state(changes, open_questions),
        known.generation,
        made.generation,
        components,
        changes,
        open_questions,
        notes(code.entry(), made),
    )


def made_manifest(
    topology: Topology, now: TopicsNow, known: Manifest | None, code: Code, generation: int
) -> Manifest:
    """Return the manifest of the app as it is now. Raises ConfigError `partitions-changed` for a topic whose
    partitions cannot be read or written as before, and LogError for an output that is declared otherwise than
    it is."""
    before = {**known.sources, **known.sinks} if known is not None else {}
    current = now.counts()
    # A topic that does not exist yet counts as one without partitions.
    counts = defaultdict(int, {**current, **{topic: before[topic] for topic in before if topic in current}})
    read = [node.topic.name for node in topology.nodes.values() if node.topic and node.kind in SOURCES]
    made = make_manifest(
        topology,
        counts,
        generation,
        None if known is None else known.internal_partitions,
        starts={topic: now.starts(topic) for topic in read},
        code=code,
    )
    found = grown(topology, made, current)
    now.check_outputs(topology)
    return found


def _former(control: Control, running: Manifest, made: Manifest) -> list[Question]:
    """Return the question for an app that is equal to a former generation. A candidate never ran."""
    digests = sorted(one.digest for one in made.components.values())
    for generation in reversed(control.generations()):
        former = manifest_of(control, generation) if generation < running.generation else None
        if former is not None and sorted(one.digest for one in former.components.values()) == digests:
            return [former_generation(made.app, generation)]
    return []


def _state(changes: Changes, open_questions: list[Question]) -> State:
    if open_questions:
        return "ask"
    return "nothing" if changes.nothing else "changes"
