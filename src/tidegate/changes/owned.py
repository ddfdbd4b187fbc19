"""How the stores, gates, models and internal topics of an app differ from those of the older version."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidegate.changes.changes import ChangeKind, Reason
from tidegate.changes.schemas import kinds_of_schema, type_differs
from tidegate.changes.steps import value_differs
from tidegate.topology.manifest import Manifest, StoreEntry

NOT_COMPARED = ("component", "born", "changelog")
"""Fields that hold where something is kept. A changelog has another name in each generation."""
TYPES = {"key": "keys", "value": "values", "state": "states", "diff": "diffs"}


def store_reasons(old: StoreEntry, new: StoreEntry, location: str = "") -> list[Reason]:
    """Return how a store differs; empty if it does not."""
    found = list(_fields(old, new, NOT_COMPARED, location))
    if (old.changelog is None) != (new.changelog is None):
        verb = "no changelog any more" if new.changelog is None else "a changelog now"
        found.append(Reason(f"it has {verb}", [ChangeKind.CONFIGURATION], after=location))
    return found


def gate_reasons(name: str, old: Manifest, new: Manifest, location: str = "") -> list[Reason]:
    """Return how the topics and types of a gate differ. The type of its values is for display alone."""
    return list(_fields(old.gates[name], new.gates[name], ("value",), location))


def model_reasons(name: str, old: Manifest, new: Manifest, location: str = "") -> list[Reason]:
    return list(_fields(old.models[name], new.models[name], NOT_COMPARED, location))


def internal_reasons(name: str, old: Manifest, new: Manifest, location: str = "") -> list[Reason]:
    """Return how the topic of a repartition differs. It has another name in each generation."""
    was, is_ = old.internal_partitions.get(name), new.internal_partitions.get(name)
    if was == is_:
        return []
    return [Reason(f"it has {is_} partitions, had {was}", [ChangeKind.CONFIGURATION], after=location)]


def _fields(
    old: msgspec.Struct, new: msgspec.Struct, without: tuple[str, ...], location: str
) -> Iterator[Reason]:
    for field in type(new).__struct_fields__:
        was, is_ = getattr(old, field), getattr(new, field)
        if field in without or was == is_:
            continue
        if field == "options":
            for name in sorted(was.keys() | is_.keys()):
                if was.get(name) != is_.get(name):
                    said = value_differs(f"its {name}", was.get(name), is_.get(name))
                    yield Reason(said, [ChangeKind.CONFIGURATION], after=location)
        elif field in TYPES and isinstance(was, dict):
            yield Reason(type_differs(TYPES[field], was, is_), kinds_of_schema(was, is_), after=location)
        elif field == "kind":
            yield Reason(f"it is of kind {is_}, was {was}", [ChangeKind.PRIVATE_SCHEMA], after=location)
        elif field == "role":
            yield Reason(f"it is {is_}, was {was}", [ChangeKind.CONFIGURATION], after=location)
        else:
            what = {"key": "the type of its keys", "partitions": "its partition count"}.get(
                field, f"its {field}"
            )
            yield Reason(value_differs(what, was, is_), [ChangeKind.CONFIGURATION], after=location)
