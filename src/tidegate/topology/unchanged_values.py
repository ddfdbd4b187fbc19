"""Which internal topics hold the values of a source as they are.

A `group_by` changes keys, a filter drops records. If there is nothing else between a source and an internal
topic, and both write values alike, each value behind the topic equals one of the source: its bytes can be
handed on, and it was decoded before.

That holds only for values that no function can have changed on their way, and that are the same after they
were written and read again, whatever other bytes the source has for them: text and numbers, and frozen
Structs of those without code or factories that run when one is read.
"""

from __future__ import annotations

from typing import Any

from msgspec import NODEFAULT, inspect

from tidegate.serde import Serde
from tidegate.serde.plain import PLAIN
from tidegate.serde.structured import Json, MsgPack
from tidegate.topology.graph import Topology
from tidegate.topology.node import Node, NodeKind

_KEEP_VALUES = (NodeKind.FILTER, NodeKind.SELECT_KEY)
_PLAIN = tuple(PLAIN[kind] for kind in (bytes, str, int, bool))
"""Each value of these has one form as bytes. A float is not among them: -0.0 is written as 0.0."""
_SCALARS = (inspect.IntType, inspect.FloatType, inspect.StrType, inspect.BoolType, inspect.NoneType)


def holds_unchanged_values(topology: Topology, node: Node) -> bool:
    """Return whether each value in the topic of this node is one of a source topic."""
    if node.kind is not NodeKind.REPARTITION or node.value is None or not _read_alike(node.value):
        return False
    at = node
    while len(at.parents) == 1:
        at = topology.nodes[at.parents[0]]
        if at.kind is NodeKind.SOURCE and at.topic is not None:
            return bool(at.topic.value_serde == node.value)
        if at.kind is NodeKind.REPARTITION:
            return at.value == node.value and holds_unchanged_values(topology, at)
        if at.kind not in _KEEP_VALUES:
            return False
    return False


def _read_alike(serde: Serde[Any]) -> bool:
    """Return whether values are immutable, and equal when they were written and read again."""
    if any(serde is plain for plain in _PLAIN):
        return True
    if not isinstance(serde, Json | MsgPack) or type(serde).__bases__[0] not in (Json, MsgPack):
        return False
    root = inspect.type_info(serde.declared_type)
    return (
        isinstance(root, inspect.StructType)
        and root.cls.__struct_config__.frozen
        and not hasattr(root.cls, "__post_init__")
        and all(field.default_factory is NODEFAULT and _is_scalar(field.type) for field in root.fields)
    )


def _is_scalar(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.UnionType):
        return all(map(_is_scalar, kind.types))
    return isinstance(kind, _SCALARS)
