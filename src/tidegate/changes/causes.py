"""Why the fingerprint of a function differs: the units and values that it reaches and that changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate.changes.changes import ChangeKind, Reason
from tidegate.fingerprint import Fingerprint, Unit
from tidegate.topology.code import CodeEntry

Units = Mapping[str, Unit]


def causes(role: str, was: str, is_: str, before: CodeEntry, after: CodeEntry) -> list[Reason]:
    """Return why a function of a step differs; empty if it does not. `was` and `is_` are the digests of its
    fingerprints, empty where it has none."""
    if was == is_:
        return []
    if not was or not is_:
        return [_logic(f"its {role} {'is gone' if was else 'is new'}", role)]
    old, new = before.fingerprints.get(was), after.fingerprints.get(is_)
    if old is None or new is None:
        return [_logic(f"its {role} changed", role)]
    found = [*_units(role, old, new, before.units, after.units), *_values(role, old, new)]
    if old.version != new.version:
        found.append(_logic(f"its version is {new.version!r}, was {old.version!r}", role))
    return found or [_logic(f"its {role} changed", role)]


def _units(role: str, old: Fingerprint, new: Fingerprint, before: Units, after: Units) -> Iterator[Reason]:
    """Yield the units that differ. While one changed, units that are only reached in one version are a
    consequence and no reason."""
    both = set(old.units) & set(new.units)
    changed = {name for name in both if _digest(before, name) != _digest(after, name)}
    for name in sorted(changed):
        if not any(other.startswith(f"{name}.") for other in changed):  # the smallest one that differs
            yield _unit(f"{_short(name)} differs", role, name, before, after)
    if changed:
        return
    gone, added = _without_moved(set(old.units) - both, set(new.units) - both, before, after)
    for name in sorted(added):
        yield _unit(f"{_short(name)} is new", role, name, {}, after)
    for name in sorted(gone):
        yield _unit(f"{_short(name)} is gone", role, name, before, {})


def _without_moved(gone: set[str], added: set[str], before: Units, after: Units) -> tuple[set[str], set[str]]:
    """Leave out the units that have the same content under another name: they were moved."""
    waiting: dict[str, list[str]] = {}
    for name in sorted(added):
        waiting.setdefault(_digest(after, name), []).append(name)
    moved: set[str] = set()
    for name in sorted(gone):
        if like := waiting.get(_digest(before, name)):
            moved |= {name, like.pop(0)}
    return gone - moved, added - moved


def _values(role: str, old: Fingerprint, new: Fingerprint) -> Iterator[Reason]:
    for name in sorted(old.values.keys() | new.values.keys()):
        if old.values.get(name) != new.values.get(name):
            verb = "is new" if name not in old.values else "is gone" if name not in new.values else "differs"
            yield _logic(f"{name} {verb}", role)


def _unit(what: str, role: str, name: str, before: Units, after: Units) -> Reason:
    return Reason(
        what,
        [ChangeKind.LOGIC],
        name,
        before[name].location if name in before else "",
        after[name].location if name in after else "",
        role,
    )


def _logic(what: str, role: str) -> Reason:
    return Reason(what, [ChangeKind.LOGIC], through=role)


def _digest(units: Units, name: str) -> str:
    return units[name].digest if name in units else ""


def _short(name: str) -> str:
    """Return the name of a unit without its module."""
    return name.rpartition(":")[2] or name
