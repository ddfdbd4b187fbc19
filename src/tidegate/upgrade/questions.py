"""What must be decided before an upgrade, and what a plan cannot see."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.changes.changes import Changes, Thing
from tidegate.fingerprint import Unseen
from tidegate.runtime.topics.upgrades import Question
from tidegate.topology.code import CodeEntry
from tidegate.topology.manifest import Manifest
from tidegate.topology.node import Node, NodeKind
from tidegate.upgrade.component_plans import Sources, component_of, lost_tables
from tidegate.upgrade.plan import ComponentPlan, Note

YES = "tidegate upgrade --yes"
SETTLE = 'declare it: @tidegate.logic(version="1"), and raise the version with each change'
UNSEEN = {
    "environment": "reads the environment",
    "clock": "reads the clock",
    "random": "is random",
    "network": "uses the network",
    "file": "reads a file",
    "process": "starts a process",
    "no source": "has no source code",
    "compiled": "is compiled code",
    "dynamic": "is chosen while it runs",
}
"""What is said about each kind of code that a fingerprint cannot see."""


def questions(sources: Sources, changes: Changes, components: list[ComponentPlan]) -> list[Question]:
    """Return what must be decided, by everything but former generations."""
    found = [*_environment(changes), *_removals(sources, changes)]
    for component in components:
        if component.action == "recalculate":
            found += [
                *_history(sources, component),
                *_sinks(sources, component),
                *_own_stores(sources, component),
                *_unlogged_stores(sources, component),
            ]
    return list({(one.code, one.text): one for one in found}.values())


def former_generation(app: str, generation: int) -> Question:
    """Return the question for code that is equal to that of a former generation."""
    return Question(
        "former-generation",
        f"the code is that of generation {generation}, which {app} ran before",
        "tidegate rollback goes back to it; it never happens by itself",
    )


def notes(code: CodeEntry, made: Manifest) -> list[Note]:
    """Return what the fingerprints of the app's code do not see."""
    digests = {digest for node in made.nodes for digest in node.code.values()}
    found = {
        (one.what, one.name, one.location): one
        for digest in sorted(digests)
        if digest in code.fingerprints
        for one in code.fingerprints[digest].unseen
    }
    return [_note(one) for _, one in sorted(found.items())]


def _note(unseen: Unseen) -> Note:
    what = UNSEEN.get(unseen.what, unseen.what)
    hint = f'{SETTLE}; or reads=["the file"]' if unseen.what == "file" else SETTLE
    return Note("unseen", f"{unseen.name} {what}: a change of it is not noticed", unseen.location, hint)


def _environment(changes: Changes) -> Iterator[Question]:
    for one in changes.environment:
        if one.what == "algorithm":
            yield Question(
                "algorithm-changed",
                "another version of tidegate made the fingerprints of the running generation: whether the "
                "code changed since cannot be seen",
                f"if it did not, start it; if it did, recalculate: {YES}",
            )
        elif one.what == "python":
            yield Question(
                "python-changed",
                f"Python is {one.after}, was {one.before}: results may differ",
                f"to recalculate: {YES}",
            )
        else:
            yield Question(
                "package-changed",
                f"package {one.name} is {one.after}, was {one.before}: results of "
                f"{', '.join(one.used_by)} may differ",
                f"to recalculate: {YES}",
            )


def _removals(sources: Sources, changes: Changes) -> Iterator[Question]:
    for table in lost_tables(sources):
        if table.rows_at_most:
            yield Question(
                "rows-removed",
                f"no step writes to {table.topic} any more: its rows are deleted, at most "
                f"{table.rows_at_most:,}",
                f"tidegate upgrade --allow-removals {table.topic}",
                table.topic,
            )
    for component in changes.components:
        for gate in component.of(Thing.GATE):
            held = sources.totals.get(gate.name)
            if gate.verdict == "gone" and held is not None and held.held:
                yield Question(
                    "held-events",
                    f"gate {gate.name} is gone, and holds {held.held:,} events",
                    f"release them first: tidegate resume {gate.name} --all-keys; or drop them: {YES}",
                )


def _history(sources: Sources, component: ComponentPlan) -> Iterator[Question]:
    for one in component.reads:
        if not one.complete and not one.new:
            yield Question(
                "history-cut",
                f"records of {one.topic} were deleted since the app first read it: {component.id} would be "
                f"recalculated from the remaining {one.records:,}",
                f"restore them; or accept other results: {YES}",
            )
    for node in component_nodes(sources, component):
        info = sources.now.info(node.topic.name) if node.topic is not None else None
        if node.kind is NodeKind.SOURCE and info is not None and info.compacts:
            yield Question(
                "compacted-source",
                f"{info.name} is compacted and read as a stream ({node.location}): records that newer ones "
                "of their key replaced are missing",
                f"read it with app.table; or accept other results: {YES}",
            )


def _sinks(sources: Sources, component: ComponentPlan) -> Iterator[Question]:
    for sink in component.publishes:
        info = sources.now.info(sink.topic)
        if sink.kind != "table":
            continue
        if info is None and not sink.new:
            yield Question(
                "sink-lost",
                f"topic {sink.topic} was deleted: all rows are published to a new one",
                f"restore it; or: {YES}",
            )
        elif info is not None and "delete" in info.policy:
            yield Question(
                "sink-deletes",
                f"topic {sink.topic} has cleanup.policy {info.policy!r}: rows that expired cannot be "
                "distinguished from rows that are gone",
                f"set cleanup.policy=compact for {sink.topic}",
            )


def _own_stores(sources: Sources, component: ComponentPlan) -> Iterator[Question]:
    for node in component_nodes(sources, component):
        for store in node.stores:
            if store.factory is not None:
                yield Question(
                    "own-store",
                    f"store {store.name} ({node.location}) keeps its rows in a system of yours, which is not "
                    "emptied",
                    f"give the new version an empty one; or: {YES}",
                )


def _unlogged_stores(sources: Sources, component: ComponentPlan) -> Iterator[Question]:
    """Yield a question for each store whose rows are only in folders of tasks: those of the next generation
    have other folders. A store in memory is empty after each start anyway."""
    users = {
        store.name: node
        for node in reversed(list(component_nodes(sources, component)))
        for store in node.stores
        if store.persistent and not store.changelog
    }
    for name, node in sorted(users.items()):
        yield Question(
            "unlogged-store",
            f"store {name} ({node.location}) has no changelog: its rows are only in local folders, and it is "
            "empty after the upgrade",
            f"give it a changelog; or accept that: {YES}",
        )


def component_nodes(sources: Sources, component: ComponentPlan) -> Iterator[Node]:
    subs = component_of(sources.topology, component.id).subtopologies
    return (sources.topology.nodes[number] for sub in subs for number in sub.nodes)
