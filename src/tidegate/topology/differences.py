"""Report how an app differs from the one that ran before.

A changed structure is refused, since state and positions belong to the old one: steps, topics, stores, gates
and settings are compared. A changed function is reported and accepted: see `source_code` for what counts as
one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any

import msgspec
from msgspec.structs import replace

from tidegate.errors import UpgradeError
from tidegate.topology.graph import Topology
from tidegate.topology.growth import grown
from tidegate.topology.manifest import GateEntry, Manifest, StepEntry, StoreEntry, make_manifest
from tidegate.topology.older import brought_up_to_date
from tidegate.topology.source_code import code_of

SHOWN = 8
"""How many differences an error lists."""
LONGEST_TYPE = 60


def check_unchanged(topology: Topology, known: Manifest) -> None:
    """Raise UpgradeError `changed-app` if the topology differs from the known manifest; partition counts of
    topics are not compared."""
    # A topic that the known app did not have counts as one without partitions: it differs by its name.
    counts = defaultdict(int, {**known.sources, **known.sinks})
    made = make_manifest(topology, counts, existing=known.internal_partitions)
    reconciled_manifest(topology, known, plain(made), counts)


def reconciled_manifest(
    topology: Topology, known: Manifest, made: Manifest, partitions: Mapping[str, int]
) -> Manifest:
    """Return the known manifest with the current partitions of its sources and the additions of this version
    of tidegate. Raises UpgradeError `changed-app` if it then differs from `made`."""
    found = grown(topology, brought_up_to_date(topology, known, made), partitions)
    if found != made:
        raise UpgradeError(
            "changed-app",
            f"app {made.app!r} is not the one that ran here before: {_listed(found, made, known.steps)}",
            f"change it back; or start over with: tidegate reset {made.app}; or use a new app id. Upgrades "
            "are not supported yet",
        )
    return found


_manifest = msgspec.json.Decoder(Manifest)


def plain(manifest: Manifest) -> Manifest:
    """Return the manifest as it is when it is read back: JSON has no tuples."""
    return _manifest.decode(msgspec.json.encode(manifest))


def changed_functions(topology: Topology, known: Manifest) -> list[UpgradeError]:
    """Return a notice for each function whose source differs from the one that the app last ran with, if both
    are known."""
    found = []
    for sub in topology.subtopologies():
        before = known.steps.get(sub.component, [])
        steps = before[sub.number] if sub.number < len(before) else []
        for number, step in zip(sub.nodes, steps, strict=False):
            node = topology.nodes[number]
            for role, function in node.functions.items():
                old, new = step.code.get(role), code_of(function)
                if old is None or new is None or old == new.digest:
                    continue
                found.append(
                    UpgradeError(
                        "changed-code",
                        f"function {new.name} at {new.location or node.location}, used by {node.label} at "
                        f"{node.location}, differs from the one that the app last ran with: rows and records "
                        "that were written before keep their old values",
                        f"to compute all rows with the new one, start over with: tidegate reset {known.app}",
                    )
                )
    return found


# --- what differs ---------------------------------------------------------------------------------------


def _listed(old: Manifest, new: Manifest, old_steps: Mapping[str, list[list[StepEntry]]]) -> str:
    found = list(dict.fromkeys(_differences(replace(old, steps=dict(old_steps)), new)))
    more = f"; and {len(found) - SHOWN} more" if found[SHOWN:] else ""
    return "; ".join(found[:SHOWN]) + more


def _differences(old: Manifest, new: Manifest) -> Iterator[str]:
    steps = list(_steps(old, new))
    yield from (text for _, text in steps)
    yield from _stores(old, new, [label for label, _ in steps])
    yield from _gates(old, new)
    yield from _models(old, new)
    for name, count in new.internal_partitions.items():
        before = old.internal_partitions.get(name, count)
        if before != count:
            yield f'repartition "{name}" has {count} partitions, had {before}'
    for name, topic in new.internal.items():
        if old.internal.get(name, topic) != topic:
            yield f'repartition "{name}" goes through {topic!r}, went through {old.internal[name]!r}'
    for name in sorted(old.settings.keys() | new.settings.keys()):
        if old.settings.get(name) != new.settings.get(name):
            yield f'setting "{name}" changed'
    if not steps and old.components != new.components:
        yield "the same steps, in another order or with stores between other ones"


def _steps(old: Manifest, new: Manifest) -> Iterator[tuple[str, str]]:
    """Yield the label of each added or removed step, and its description. A moved step is both."""
    before, after = _flat(old), _flat(new)
    matcher = SequenceMatcher(
        None, [label for label, _ in before], [label for label, _ in after], autojunk=False
    )
    for tag, low, high, from_, to in matcher.get_opcodes():
        if tag != "equal":
            for label, location in before[low:high]:
                yield label, f"{label} is gone" + (f" (it was at {location})" if location else "")
            for label, location in after[from_:to]:
                yield label, f"new {label} ({location})"


def _flat(manifest: Manifest) -> list[tuple[str, str]]:
    """Return the labels of all steps with their source lines (empty if unknown), sorted by component.
    Components are named after what they contain, so their names are not compared."""
    found: list[tuple[str, str]] = []
    for component, subs in sorted(manifest.components.items()):
        steps = manifest.steps.get(component, [])
        for number, labels in enumerate(subs):
            known = steps[number] if number < len(steps) else []
            lines = [one.location for one in known] if len(known) == len(labels) else [""] * len(labels)
            found += zip(labels, lines, strict=True)
    return found


def _stores(old: Manifest, new: Manifest, steps: list[str]) -> Iterator[str]:
    """Yield the stores that differ, without those that were added or removed with the step of the same
    name."""
    lines = {store: step.location for step in _all_steps(new) for store in step.stores}
    for name in sorted(old.stores.keys() ^ new.stores.keys()):
        if not any(f'"{name}"' in label for label in steps):
            yield f'new store "{name}" ({lines[name]})' if name in lines else f'store "{name}" is gone'
    for name in new.stores.keys() & old.stores.keys():
        how = ", ".join(_of_store(old.stores[name], new.stores[name]))
        if how:
            yield f'store "{name}" ({lines[name]}): {how}'


def _of_store(old: StoreEntry, new: StoreEntry) -> Iterator[str]:
    if old.kind != new.kind:
        yield f"it is of kind {new.kind}, was {old.kind}"
    for what, before, after in (("keys", old.key, new.key), ("values", old.value, new.value)):
        if before != after:
            yield _of_type(what, before, after)
    if old.changelog != new.changelog:
        yield f"its changelog is {new.changelog or 'none'}, was {old.changelog or 'none'}"
    if old.role != new.role:
        yield f"it is {new.role}, was {old.role}"


def _of_type(what: str, old: dict[str, Any], new: dict[str, Any]) -> str:
    """Describe a changed type: with the names if the formats differ, else only that the schema changed."""
    before, after = (one.get("format", "") for one in (old, new))
    if before and after and before != after and len(before) + len(after) <= LONGEST_TYPE:
        return f"its {what} are {after}, were {before}"
    return f"its {what} are of another type than they were"


def _gates(old: Manifest, new: Manifest) -> Iterator[str]:
    for name, gate in new.gates.items():
        before = old.gates.get(name, gate)
        for field in GateEntry.__struct_fields__:
            was, is_ = getattr(before, field), getattr(gate, field)
            if was != is_:
                what = {"key": "the type of its keys", "partitions": "its partition count"}.get(
                    field, f"its {field} topic"
                )
                yield f'gate "{name}": {what} is {is_}, was {was}'


def _models(old: Manifest, new: Manifest) -> Iterator[str]:
    for name, model in new.models.items():
        before = old.models.get(name, model)
        for field in ("changelog", "requests", "events", "partitions", "appendable", "max_state"):
            was, is_ = getattr(before, field), getattr(model, field)
            if was != is_:
                yield f'model "{name}": {field} is {is_}, was {was}'


def _all_steps(manifest: Manifest) -> Iterator[StepEntry]:
    for subs in manifest.steps.values():
        for steps in subs:
            yield from steps
