"""How one step differs from the same step of the older version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tidegate.changes.causes import causes
from tidegate.changes.changes import ChangeKind, Reason, Thing
from tidegate.changes.schemas import type_differs
from tidegate.topology.code import CodeEntry
from tidegate.topology.digest import UNCOUNTED
from tidegate.topology.manifest import NodeEntry
from tidegate.topology.node import INTERNAL, SINKS, NodeKind

LONGEST_VALUE = 60
KEYS = (NodeKind.SELECT_KEY, NodeKind.TABLE_GROUP)
"""Steps whose function chooses the key under which records are processed."""
_THINGS = {
    NodeKind.SOURCE: Thing.SOURCE,
    NodeKind.TABLE: Thing.SOURCE,
    NodeKind.GATE: Thing.GATE,
    NodeKind.MODEL: Thing.MODEL,
    **dict.fromkeys(SINKS, Thing.SINK),
    **dict.fromkeys(INTERNAL, Thing.INTERNAL),
}


def thing_of(node: NodeEntry) -> Thing:
    """Return what a step is to the user. The topics of gates and models are plain steps: see `owner_of`."""
    return Thing.NODE if owner_of(node) else _THINGS.get(NodeKind(node.kind), Thing.NODE)


def owner_of(node: NodeEntry) -> str:
    """Return the gate or model that a step is a topic of; empty for the user's own steps."""
    if node.kind == NodeKind.ADMITTED:
        return node.name.removesuffix("-admitted")
    owner: str = node.options.get("gate") or node.options.get("model") or ""
    return owner


def step_reasons(old: NodeEntry, new: NodeEntry, before: CodeEntry, after: CodeEntry) -> list[Reason]:
    """Return how a step differs, without its inputs; empty if it does not."""
    return [*_declared(old, new), *_types(old, new), *_code(old, new, before, after)]


def _declared(old: NodeEntry, new: NodeEntry) -> Iterator[Reason]:
    def reason(what: str, kind: ChangeKind) -> Reason:
        return Reason(what, [kind], before=old.location, after=new.location)

    if old.kind != new.kind:
        yield reason(f"it is {new.kind}, was {old.kind}", ChangeKind.LOGIC)
    if old.topic != new.topic:
        yield reason(f"its topic is {new.topic!r}, was {old.topic!r}", ChangeKind.CONFIGURATION)
    if old.on_error != new.on_error:
        said = f"on_error is {_quoted(new.on_error)}, was {_quoted(old.on_error)}"
        yield reason(said, ChangeKind.CONFIGURATION)
    if old.stores != new.stores:
        used = ", ".join(new.stores) or "no store"
        yield reason(f"it uses {used}, used {', '.join(old.stores) or 'none'}", ChangeKind.LOGIC)
    for name in sorted(old.options.keys() | new.options.keys()):
        was, is_ = old.options.get(name), new.options.get(name)
        if was != is_ and name not in UNCOUNTED:
            yield reason(value_differs(name, was, is_), ChangeKind.CONFIGURATION)


def _types(old: NodeEntry, new: NodeEntry) -> Iterator[Reason]:
    private = new.kind in INTERNAL or thing_of(new) in (Thing.GATE, Thing.MODEL)
    for what, was, is_ in (("keys", old.key, new.key), ("values", old.value, new.value)):
        if was != is_:
            kinds = [ChangeKind.PRIVATE_SCHEMA if private else ChangeKind.LOGIC]
            if what == "keys" and thing_of(new) is Thing.SOURCE:
                kinds = [ChangeKind.SOURCE_KEY]
            yield Reason(type_differs(what, was, is_), kinds, before=old.location, after=new.location)


def _code(old: NodeEntry, new: NodeEntry, before: CodeEntry, after: CodeEntry) -> Iterator[Reason]:
    for role in sorted(old.code.keys() | new.code.keys()):
        for reason in causes(role, old.code.get(role, ""), new.code.get(role, ""), before, after):
            if new.kind in KEYS:
                yield msgspec.structs.replace(reason, kinds=[ChangeKind.SOURCE_KEY, *reason.kinds])
            else:
                yield reason


def value_differs(name: str, was: Any, is_: Any) -> str:
    """Describe a changed option: with both values if they are short."""
    shown = [_quoted(one) for one in (is_, was)]
    if sum(map(len, shown)) > LONGEST_VALUE:
        return f"{name} differs"
    return f"{name} is {shown[0]}, was {shown[1]}"


def _quoted(value: Any) -> str:
    return "none" if value in (None, "") else msgspec.json.encode(value).decode()
