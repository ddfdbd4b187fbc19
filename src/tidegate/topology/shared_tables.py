"""Table topics that several components of one app write to.

The rows of a table topic have the app as their owner, not a component. If one of two components that write to
it were recalculated alone, the rows of the other one would be missing from the result, and be deleted. So
components that share a table topic are recalculated together.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Literal, NamedTuple

from tidegate.topology.manifest import Manifest
from tidegate.topology.node import SINKS


class Sharing(NamedTuple):
    """Why a component is recalculated that is the same."""

    topic: str
    other: str
    """The other component that writes to the topic."""
    verdict: Literal["changed", "new", "gone", "shared"]
    """What happened to it; `shared`: it is the same, and shares a table topic with a third one."""


def shared_tables(same: AbstractSet[str], made: Manifest, known: Manifest) -> dict[str, Sharing]:
    """Return those of the components `same` that share a table topic with a component that is new, gone or
    changed, directly or through others."""
    writers = _writers(made, known)
    found: dict[str, Sharing] = {}
    reached = [id for id in (*made.components, *known.components) if id not in same]
    while reached:
        other = reached.pop(0)
        for topic, ids in writers.items():
            for id in sorted(ids & same - found.keys()) if other in ids else ():
                found[id] = Sharing(topic, other, _verdict(other, same, made, known))
                reached.append(id)
    return found


def _verdict(
    id: str, same: AbstractSet[str], made: Manifest, known: Manifest
) -> Literal["changed", "new", "gone", "shared"]:
    if id in same:
        return "shared"
    if id not in known.components:
        return "new"
    return "changed" if id in made.components else "gone"


def _writers(made: Manifest, known: Manifest) -> dict[str, set[str]]:
    """Return the components of both versions that write to each table topic of the newer one. Manifests of
    earlier versions do not record which sinks hold rows; a component that is the same has its sinks in both
    versions, so the newer one is sufficient."""
    tables = {node.topic for node in made.nodes if node.rows}
    found: dict[str, set[str]] = {topic: set() for topic in sorted(tables)}
    for manifest in (made, known):
        for id, component in manifest.components.items():
            for node in (manifest.nodes[number] for number in component.nodes()):
                if node.kind in SINKS and node.topic in tables:
                    found[node.topic].add(id)
    return found
