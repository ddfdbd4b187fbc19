"""How the schema of keys or values differs from the older one."""

from __future__ import annotations

from typing import Any

from tidegate.changes.changes import ChangeKind

LONGEST = 60
"""How many characters of types and fields are shown."""


def type_differs(what: str, old: dict[str, Any], new: dict[str, Any]) -> str:
    """Describe a changed type: by the names of types or fields if they differ, else only that it changed."""
    before, after = (str(one.get("format", "")) for one in (old, new))
    if before and after and before != after and len(before) + len(after) <= LONGEST:
        return f"its {what} are {after}, were {before}"
    gone, added = (", ".join(sorted(some)) for some in (_removed(old, new), _removed(new, old)))
    clauses = [f"have {added} more"] * bool(added) + [f"have no {gone} any more"] * bool(gone)
    if clauses and len(gone) + len(added) <= LONGEST:
        return f"its {what} {' and '.join(clauses)}"
    return f"its {what} are of another type than they were"


def kinds_of_schema(old: dict[str, Any], new: dict[str, Any]) -> list[ChangeKind]:
    """Return the kinds of a changed private schema: added fields are more state, removed ones are less."""
    more = [ChangeKind.MORE_STATE] if _fields(new) - _fields(old) else []
    less = [ChangeKind.LESS_STATE] if _fields(old) - _fields(new) else []
    return [*more, ChangeKind.PRIVATE_SCHEMA, *less]


def _removed(old: dict[str, Any], new: dict[str, Any]) -> set[str]:
    """Return the fields with a name that the new schema does not have."""
    return {name for name in _fields(old) - _fields(new) if not name.startswith("[")}


def _fields(schema: Any) -> set[str]:
    """Return the names of all fields in a JSON schema, at any depth; fields of arrays by their place."""
    found: set[str] = set()
    if isinstance(schema, dict):
        properties = schema.get("properties")
        if isinstance(properties, dict):
            found |= properties.keys()
        items = schema.get("prefixItems")
        if isinstance(items, list):
            found |= {f"[{place}]" for place in range(len(items))}
        for inner in schema.values():
            found |= _fields(inner)
    elif isinstance(schema, list):
        for inner in schema:
            found |= _fields(inner)
    return found
