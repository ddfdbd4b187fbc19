"""A patch leads from one JSON value to another. It is a JSON value itself:

    {}                          no change
    {"=": value}                the value is replaced, or created
    {"-": 1}                    the key is deleted, if it is there
    {"*": {key: patch, ...}}    of an object: these keys change
    {"#": [[index, patch], ...], "n": 3, "+": [...]}
                                of a list: these items change; then it is cut to n items, and these follow

Patches of one history compose because `since` makes one patch for any two versions of it (`stamps.py`); none
is ever computed from two others.
"""

from __future__ import annotations

from typing import Any

from tidegate.models.canonical import Json

SET, DELETE, KEYS, ITEMS, CUT, APPEND = "=", "-", "*", "#", "n", "+"

Patch = dict[str, Any]


def apply(value: Json, patch: Patch) -> Json:
    """Return the patched value. What does not change is shared with the old one, which stays as it is.

    Raises ValueError if the patch is none for this value.
    """
    if not patch:
        return value
    if SET in patch:
        return patch[SET]  # type: ignore[no-any-return]
    if KEYS in patch and isinstance(value, dict):
        return _applied_to_keys(value, patch[KEYS])
    if patch.keys() <= {ITEMS, CUT, APPEND} and isinstance(value, list):
        return _applied_to_items(value, patch)
    raise ValueError(f"a patch with {sorted(patch)} does not fit a {type(value).__name__}")


def _applied_to_keys(value: dict[str, Json], changes: dict[str, Patch]) -> Json:
    changed = dict(value)
    for key, patch in changes.items():
        if DELETE in patch:
            changed.pop(key, None)
        elif SET in patch:
            changed[key] = patch[SET]
        elif key in changed:
            changed[key] = apply(changed[key], patch)
        else:
            raise ValueError(f"the patch changes {key!r}, which is not there")
    return changed


def _applied_to_items(value: list[Json], patch: Patch) -> Json:
    changed = list(value)
    for index, part in patch.get(ITEMS, ()):
        if not 0 <= index < len(changed):
            raise ValueError(f"the patch changes item {index} of {len(changed)}")
        changed[index] = apply(changed[index], part)
    if CUT in patch:
        if not 0 <= patch[CUT] <= len(changed):
            raise ValueError(f"the patch cuts {len(changed)} items to {patch[CUT]}")
        del changed[patch[CUT] :]
    changed += patch.get(APPEND, [])
    return changed
