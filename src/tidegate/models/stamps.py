"""Stamps: for each path of a document the sequence at which it last changed.

From them and the document itself, `since` makes the one patch that leads from any earlier version to this
one. A stamp is a number where a value was set as a whole and nothing below it has changed since; else it has
the sequence at which the object or list was set, and the stamps of what changed below it. Deleted keys keep
theirs. Of a list, items are only added and removed at its end: those that were added after a version follow
the items that the version has in common with this one.

The document and its stamps are never changed in place: a record that fails leaves both as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from typing import Any, TypeAlias, TypeVar

import msgspec

from tidegate.models.canonical import Json
from tidegate.models.checks import check_depth, check_value
from tidegate.models.patch import APPEND, CUT, DELETE, ITEMS, KEYS, SET, Patch

Key = TypeVar("Key", str, int)
FEWEST = 256
"""So many stamps are always kept."""
_EXACT = frozenset((str, int, bool, type(None)))
"""Types whose equal values are the same."""
_MISSING: Any = object()
_encoded = msgspec.json.Encoder(order="deterministic").encode


class ObjectStamps(msgspec.Struct, frozen=True, array_like=True, tag="o"):
    """Of an object. Keys that are not named here have the stamp `set`."""

    set: int
    keys: dict[str, Stamps] = {}
    deleted: dict[str, int] = {}


class ListStamps(msgspec.Struct, frozen=True, array_like=True, tag="l"):
    """Of a list. Items that are not named here have the stamp `set`."""

    set: int
    cut: int = 0
    """When it last lost items; 0 if never."""
    added: list[tuple[int, int]] = []
    """Index and sequence: from this item on they were added then, or later. Both rise."""
    items: dict[int, Stamps] = {}

    def by_item(self, count: int) -> Iterator[Stamps]:
        """Yield the stamps of the first items."""
        at, runs = self.set, iter([*self.added, (count, 0)])
        start, added_at = next(runs)
        for index in range(count):
            while start <= index:
                at = added_at
                start, added_at = next(runs)
            yield self.items.get(index, at)


Stamps: TypeAlias = int | ObjectStamps | ListStamps


def advance(old: Json, new: Json, stamps: Stamps, sequence: int, depth: int = 0) -> tuple[Stamps, Patch]:
    """Return the stamps of `new`, which follows `old` at this sequence, and the patch from `old` to it. If
    nothing changed, these are the same stamps, and {}.

    Values of different types differ: 1, 1.0 and true are three values, and so are 0.0 and -0.0 two. Raises
    ValueError for a new value that JSON or JavaScript cannot hold.
    """
    if is_same(old, new):
        return stamps, {}
    if old and new:  # of an empty object or list nothing can be kept
        if type(old) is dict and type(new) is dict:
            return _advance_object(old, new, stamps, sequence, depth + 1)
        if type(old) is list and type(new) is list:
            return _advance_list(old, new, stamps, sequence, depth + 1)
    check_value(new, depth)
    return sequence, {SET: new}


def is_same(old: Json, new: Json) -> bool:
    """Whether two values are equal, and of equal types in all their parts."""
    if type(old) is not type(new) or old != new:
        return False
    if isinstance(new, dict | list):
        return _encoded(old) == _encoded(new)
    return type(new) is not float or new != 0 or str(old) == str(new)


def _advance_object(
    old: dict[str, Json], new: dict[str, Json], stamps: Stamps, sequence: int, depth: int
) -> tuple[Stamps, Patch]:
    check_depth(depth)
    before = stamps if isinstance(stamps, ObjectStamps) else ObjectStamps(_set_at(stamps))
    changed: dict[str, Stamps] = {}
    patches: dict[str, Patch] = {}
    kept = False
    for key, value in new.items():
        was, kind = old.get(key, _MISSING), type(value)
        if was == value and type(was) is kind and (kind in _EXACT or is_same(was, value)):
            kept = True
        elif was is _MISSING:
            check_value(value, depth)
            changed[key], patches[key] = sequence, {SET: value}
        else:
            stamp = before.keys.get(key, before.set)
            changed[key], patches[key] = advance(was, value, stamp, sequence, depth)
            kept |= changed[key] != sequence
    if not kept:  # nothing of the old one is left
        return sequence, {SET: new}
    keys, deleted = {**before.keys, **changed}, before.deleted
    if deleted:
        deleted = {key: at for key, at in deleted.items() if key not in changed}
    for key in [key for key in old if key not in new]:
        keys.pop(key, None)
        deleted = {**deleted, key: sequence}
        patches[key] = {DELETE: 1}
    return ObjectStamps(before.set, keys, deleted), {KEYS: patches}


def _advance_list(
    old: list[Json], new: list[Json], stamps: Stamps, sequence: int, depth: int
) -> tuple[Stamps, Patch]:
    check_depth(depth)
    before = stamps if isinstance(stamps, ListStamps) else ListStamps(_set_at(stamps))
    common = min(len(old), len(new))
    changed: dict[int, Stamps] = {}
    patches: list[list[Any]] = []
    for index, stamp in enumerate(before.by_item(common)):
        if not is_same(old[index], new[index]):
            changed[index], patch = advance(old[index], new[index], stamp, sequence, depth)
            patches.append([index, patch])
    if len(changed) == common and all(stamp == sequence for stamp in changed.values()):
        check_value(new, depth - 1)
        return sequence, {SET: new}
    whole: Patch = {ITEMS: patches} if patches else {}
    kept = {index: stamp for index, stamp in before.items.items() if index < common}
    added, cut = [run for run in before.added if run[0] < common], before.cut
    if len(old) > common:
        whole[CUT], cut = common, sequence
    if len(new) > common:
        check_value(new[common:], depth)
        whole[APPEND] = new[common:]
        added.append((common, sequence))
    return ListStamps(before.set, cut, added, {**kept, **changed}), whole


def _set_at(stamps: Stamps) -> int:
    return stamps if isinstance(stamps, int) else stamps.set


def since(document: Json, stamps: Stamps, sequence: int) -> Patch:
    """Return the patch from the version of a sequence to this one; {} if nothing changed."""
    if _set_at(stamps) > sequence:
        return {SET: document}
    if isinstance(stamps, ObjectStamps) and isinstance(document, dict):
        return _keys_since(document, stamps, sequence)
    if isinstance(stamps, ListStamps) and isinstance(document, list):
        return _items_since(document, stamps, sequence)
    return {}


def _keys_since(document: dict[str, Json], stamps: ObjectStamps, sequence: int) -> Patch:
    changes: dict[str, Patch] = {}
    for key, stamp in stamps.keys.items():
        if patch := since(document[key], stamp, sequence):
            changes[key] = patch
    for key, at in stamps.deleted.items():
        if at > sequence:
            changes[key] = {DELETE: 1}
    return {KEYS: changes} if changes else {}


def _items_since(document: list[Json], stamps: ListStamps, sequence: int) -> Patch:
    common = min((start for start, at in stamps.added if at > sequence), default=len(document))
    changes = [
        [index, change]
        for index, stamp in sorted(stamps.items.items())
        if index < common and (change := since(document[index], stamp, sequence))
    ]
    patch: Patch = {}
    if changes:
        patch[ITEMS] = changes
    if stamps.cut > sequence:
        patch[CUT] = common
    if common < len(document):
        patch[APPEND] = document[common:]
    return patch


def sequences(stamps: Stamps) -> Iterator[int]:
    """Every sequence in it: as many as there are entries."""
    if isinstance(stamps, int):
        yield stamps
        return
    yield stamps.set
    below: Iterable[Stamps]
    if isinstance(stamps, ObjectStamps):
        yield from stamps.deleted.values()
        below = stamps.keys.values()
    else:
        yield stamps.cut
        yield from (at for _, at in stamps.added)
        below = stamps.items.values()
    for one in below:
        yield from sequences(one)


def limited(stamps: Stamps, floor: int, most: int) -> tuple[Stamps, int]:
    """Drop the older half of the stamps if there are more than `most`. Returns what is left, and the floor:
    the oldest sequence that `since` still knows."""
    found = list(sequences(stamps))
    if len(found) <= max(FEWEST, most):
        return stamps, floor
    risen = nsmallest(len(found) // 2, found)[-1]
    return _newer(stamps, risen), max(floor, risen)


def _newer(stamps: Stamps, floor: int) -> Stamps:
    """What `since` needs for versions at or above the floor."""
    if isinstance(stamps, int):
        return stamps
    if isinstance(stamps, ObjectStamps):
        keys = _newer_ones(stamps.keys, floor)
        deleted = {key: at for key, at in stamps.deleted.items() if at > floor}
        return ObjectStamps(stamps.set, keys, deleted) if keys or deleted else stamps.set
    items = _newer_ones(stamps.items, floor)
    added = [run for run in stamps.added if run[1] > floor]
    cut = stamps.cut if stamps.cut > floor else 0
    return ListStamps(stamps.set, cut, added, items) if items or added or cut else stamps.set


def _newer_ones(stamps: dict[Key, Stamps], floor: int) -> dict[Key, Stamps]:
    left = {key: _newer(one, floor) for key, one in stamps.items()}
    return {key: one for key, one in left.items() if not isinstance(one, int) or one > floor}
