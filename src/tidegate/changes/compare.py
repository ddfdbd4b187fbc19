"""Compare two versions of an app.

1 components with equal digests are the same: nothing in them is compared; 2 the steps of the others are
matched (`matching`) and compared (`steps`, `owned`); 3 a store or sink that reads, over any number of steps,
from one that differs has changed as well, and names it; 4 a component whose digest differs for no visible
reason has changed nevertheless; 5 a component that is the same is kept, unless it shares a table topic with
one that is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from tidegate.changes.changes import (
    Change,
    ChangeKind,
    Changes,
    ComponentChange,
    Reason,
    Thing,
    Verdict,
    in_order,
)
from tidegate.changes.environment import environment_changes
from tidegate.changes.first_format import in_first_format, is_of_first_format
from tidegate.changes.lineage import Lineage, Pair
from tidegate.changes.matching import in_path_order, matched
from tidegate.changes.owned import gate_reasons, internal_reasons, model_reasons, store_reasons
from tidegate.changes.steps import KEYS, owner_of, step_reasons, thing_of
from tidegate.topology.code import CodeEntry
from tidegate.topology.generations import same_components
from tidegate.topology.manifest import Manifest, NodeEntry
from tidegate.topology.shared_tables import Sharing, shared_tables

NO_CODE = CodeEntry()
OF_NEW = {
    Thing.SOURCE: ChangeKind.NEW_SOURCE,
    **dict.fromkeys((Thing.STORE, Thing.GATE, Thing.MODEL), ChangeKind.MORE_STATE),
}
OF_GONE = {
    Thing.SOURCE: ChangeKind.REMOVED_SOURCE,
    **dict.fromkeys((Thing.STORE, Thing.GATE, Thing.MODEL), ChangeKind.LESS_STATE),
}
OF_SHARED = {
    "changed": "changed",
    "new": "is new",
    "gone": "is gone",
    "shared": "is recalculated",
}
UNPLACED = "the same steps, in another order or with stores between other ones"


class Placed(NamedTuple):
    """A change, and the component that it belongs to: the newer one, unless it is gone."""

    component: str
    change: Change


def compare(before: Manifest, after: Manifest, code_before: CodeEntry, code_after: CodeEntry) -> Changes:
    """Return the differences between the manifest of the running generation and that of the current code.
    Components are matched by their ids, so `after` must be made of a topology that got those of `before`."""
    same = same_components(after, before) - _of_other_rows(before, after)
    first_format = is_of_first_format(before)
    lines = {store: node.location for node in after.nodes for store in node.stores}
    if first_format:
        same = set()
        found = _Comparison(before, in_first_format(after, before), NO_CODE, NO_CODE, same, lines).placed()
    elif before.algorithm != after.algorithm:  # then digests of code cannot be compared
        old, new = _without_code(before), _without_code(after)
        found = _Comparison(old, new, NO_CODE, NO_CODE, same, lines).placed()
    else:
        found = _Comparison(before, after, code_before, code_after, same, lines).placed()
    ids = [*after.components, *(name for name in before.components if name not in after.components)]
    shared = shared_tables(same, after, before)
    components = [
        _same(before, name, shared.get(name))
        if name in same
        else _component(before, after, name, found, has_digest=not first_format)
        for name in ids
    ]
    kinds = {kind for component in components for kind in component.kinds}
    return Changes(
        after.app, components, in_order(kinds), environment_changes(before, after, code_before, code_after)
    )


class _Comparison:
    """The steps and stores of all components that are not kept."""

    def __init__(
        self,
        before: Manifest,
        after: Manifest,
        code_before: CodeEntry,
        code_after: CodeEntry,
        kept: set[str],
        lines: Mapping[str, str],
    ) -> None:
        """`lines` are those where the stores of the newer version are declared."""
        self._before = before
        self._after = after
        self._kept = kept
        self._lines = lines
        self._code = code_before, code_after
        self._old_home, self._new_home = _homes(before, kept), _homes(after, kept)
        self._pairs = matched(before, after, self._old_home, self._new_home)
        self._lineage = Lineage(before.nodes, after.nodes, self._pairs)
        self._steps = {pair: self._step(*pair) for pair in self._pairs}
        self._marks = dict(self._differing())

    def placed(self) -> list[Placed]:
        """Return all changes."""
        steps = [
            Placed(self._home(pair), self._with_inputs(change, pair[1]) if _is_sink(change) else change)
            for pair, change in self._steps.items()
        ]
        return [*steps, *self._stores()]

    def _home(self, pair: Pair) -> str:
        old, new = pair
        return self._new_home[new] if new is not None else self._old_home[old or 0]

    def _step(self, old: int | None, new: int | None) -> Change:
        if new is None:
            assert old is not None  # noqa: S101 - a pair has at least one of both
            return _step_change("gone", self._before.nodes[old])
        node = self._after.nodes[new]
        if old is None:
            return _step_change("new", node)
        reasons = step_reasons(self._before.nodes[old], node, *self._code)
        rewired = self._lineage.rewired(old, new)
        reasons += [rewired] if rewired is not None else []
        owned = self._of_owned(node)
        if owned:  # a partition count that was declared is one that it has
            reasons = [reason for reason in reasons if not reason.what.startswith("partitions is ")]
        reasons += owned
        return _step_change("changed" if reasons else "kept", node, reasons)

    def _of_owned(self, node: NodeEntry) -> list[Reason]:
        """Return how the topics of a gate, a model or a repartition differ."""
        before, after, name, line = self._before, self._after, node.name, node.location
        found: list[Reason] = []
        if name in before.gates and name in after.gates:
            found += gate_reasons(name, before, after, line)
        if name in before.models and name in after.models:
            found += model_reasons(name, before, after, line)
        if name in before.internal and name in after.internal:
            found += internal_reasons(name, before, after, line)
        return found

    def _differing(self) -> Iterator[tuple[int, Reason]]:
        """Yield the steps of the newer version that differ, each with the clause for what comes after it."""
        for (old, new), change in self._steps.items():
            if new is None:
                continue
            if change.verdict != "kept":
                verb = "is new" if change.verdict == "new" else "changed"
                yield (
                    new,
                    Reason(
                        f"its input {change.label} {verb}", change.kinds, after=change.location, upstream=True
                    ),
                )
            elif old is not None and (gone := self._lineage.gone_above(old)):
                node = gone[0]
                kinds = _kinds("gone", thing_of(node), node)
                owner = owner_of(node)
                label = f'gate "{owner}"' if owner else node.label
                said = f"its input {label} is gone"
                yield new, Reason(said, kinds, before=node.location, upstream=True)

    def _with_inputs(self, change: Change, number: int | None) -> Change:
        """Return a sink that is kept, as changed if what it reads from differs."""
        if change.verdict != "kept" or number is None:
            return change
        found = [self._marks[number]] if number in self._marks else []
        found = found or self._lineage.first_above(number, self._marks)
        return _changed(change, found) if found else change

    def _stores(self) -> Iterator[Placed]:
        before, after = self._before, self._after
        old_users, new_users = _users(before, self._old_home), _users(after, self._new_home)
        for name, entry in after.stores.items():
            if entry.component in self._kept:
                continue
            users = new_users.get(name, [])
            line = self._lines.get(name, "")
            change = Change("kept", Thing.STORE, f'store "{name}"', name, line)
            if name not in before.stores:
                yield Placed(entry.component, replace(change, verdict="new", kinds=[OF_NEW[Thing.STORE]]))
                continue
            reasons = store_reasons(before.stores[name], entry, line)
            if not reasons and entry.role != "carried":
                reasons = self._of_users(users)
            yield Placed(entry.component, _changed(change, reasons))
        for name, entry in before.stores.items():
            if name not in after.stores:
                users = old_users.get(name, [])
                line = before.nodes[users[0]].location if users else ""
                kinds = [OF_GONE[Thing.STORE]]
                change = Change("gone", Thing.STORE, f'store "{name}"', name, line, kinds=kinds)
                yield Placed(entry.component, change)

    def _of_users(self, numbers: list[int]) -> list[Reason]:
        """Return why a store has other rows although it is the same: a step that writes it, or what that step
        reads from, differs."""
        found: list[Reason] = []
        for number in numbers:
            mark = self._marks.get(number)
            if mark is not None:
                label = self._after.nodes[number].label
                found.append(replace(mark, what=mark.what.replace(f"its input {label}", label)))
            else:
                found += self._lineage.first_above(number, self._marks)
        return list({reason.what: reason for reason in found}.values())


def _component(
    before: Manifest, after: Manifest, name: str, placed: list[Placed], *, has_digest: bool
) -> ComponentChange:
    """Return a component that is new, gone or changed; without a digest it may also be kept."""
    changes = [one.change for one in placed if one.component == name]
    old, new = before.components.get(name), after.components.get(name)
    if old is None or new is None:
        kinds = {kind for change in changes for kind in change.kinds}
        return ComponentChange(
            name, "new" if old is None else "gone", old.generation if old else 0, in_order(kinds), changes
        )
    reasons = [
        Reason(f'setting "{setting}" changed', [ChangeKind.CONFIGURATION])
        for setting in sorted(before.settings.keys() | after.settings.keys())
        if before.settings.get(setting) != after.settings.get(setting)
    ]
    if not reasons and all(change.verdict == "kept" for change in changes):
        if not has_digest:
            return _kept(before, name)
        reasons = [Reason(UNPLACED, [ChangeKind.LOGIC])]
    kinds = {kind for change in changes for kind in change.kinds}
    kinds |= {kind for reason in reasons for kind in reason.kinds}
    return ComponentChange(name, "changed", old.generation, in_order(kinds), changes, reasons)


def _same(before: Manifest, name: str, shared: Sharing | None) -> ComponentChange:
    """Return a component that is the same. It is changed if it shares a table topic with one that is not."""
    found = _kept(before, name)
    if shared is None:
        return found
    what = f"it writes rows to {shared.topic}, as {shared.other} does, which {OF_SHARED[shared.verdict]}"
    return replace(found, verdict="changed", reasons=[Reason(what, upstream=True)])


def _kept(before: Manifest, name: str) -> ComponentChange:
    component = before.components[name]
    numbers = [number for sub in component.subtopologies for number in sub.nodes]
    nodes = [before.nodes[number] for number in in_path_order(before.nodes, numbers)]
    stores = dict.fromkeys(store for node in nodes for store in node.stores)
    return ComponentChange(
        name,
        "kept",
        component.generation,
        changes=[
            *(_step_change("kept", node) for node in nodes),
            *(Change("kept", Thing.STORE, f'store "{store}"', store) for store in stores),
        ],
    )


def _step_change(verdict: Verdict, node: NodeEntry, reasons: list[Reason] | None = None) -> Change:
    thing = thing_of(node)
    kinds = {kind for reason in reasons or [] for kind in reason.kinds}
    return Change(
        verdict,
        thing,
        node.label,
        node.name or node.topic,
        node.location,
        reasons or [],
        in_order(kinds) if reasons else _kinds(verdict, thing, node),
        owner_of(node),
    )


def _kinds(verdict: Verdict, thing: Thing, node: NodeEntry) -> list[ChangeKind]:
    """Return the kinds of a step that is new or gone. Topics of gates and models are none of their own."""
    if verdict not in ("new", "gone") or owner_of(node):
        return []
    kinds: Mapping[Thing, ChangeKind] = OF_NEW if verdict == "new" else OF_GONE
    found = kinds.get(thing, ChangeKind.LOGIC)
    return [ChangeKind.SOURCE_KEY, found] if node.kind in KEYS else [found]


def _changed(change: Change, reasons: list[Reason]) -> Change:
    if not reasons:
        return change
    kinds = {kind for reason in reasons for kind in reason.kinds}
    return replace(change, verdict="changed", reasons=reasons, kinds=in_order(kinds))


def _is_sink(change: Change) -> bool:
    return change.thing is Thing.SINK


def _homes(manifest: Manifest, kept: set[str]) -> dict[int, str]:
    """Return the component of each node, without those that are kept."""
    return {
        number: name
        for name, component in manifest.components.items()
        if name not in kept
        for sub in component.subtopologies
        for number in sub.nodes
    }


def _users(manifest: Manifest, homes: Mapping[int, str]) -> dict[str, list[int]]:
    """Return the nodes that use each store."""
    found: dict[str, list[int]] = {}
    for number in homes:
        for store in manifest.nodes[number].stores:
            found.setdefault(store, []).append(number)
    return found


def _of_other_rows(before: Manifest, after: Manifest) -> set[str]:
    """Return the components with stores whose rows have another form. The stores of gates and models are not
    part of a digest: a version of tidegate may add fields to their rows (see `older`)."""
    return {
        store.component
        for name, store in after.stores.items()
        if name in before.stores and before.stores[name].value != store.value
    }


def _without_code(manifest: Manifest) -> Manifest:
    return replace(manifest, nodes=[replace(node, code={}) for node in manifest.nodes])
