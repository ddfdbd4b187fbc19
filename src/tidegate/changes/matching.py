"""Which step of the older version is which step of the newer one.

A step with a name is the step of that name; one without a name is the one of the same kind over the same
topic; one that is the only one of its content in both versions is that one; any other is found by its place
along the path. Paths are read from their ends, so swapped statements make no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher

import msgspec

from tidegate.topology.manifest import Manifest, NodeEntry

Content = tuple[str, ...]


def matched(
    before: Manifest, after: Manifest, old: Iterable[int], new: Iterable[int]
) -> list[tuple[int | None, int | None]]:
    """Return pairs of node numbers, the newer version's in the order of its paths. A node without its like is
    paired with None."""
    old_path, new_path = in_path_order(before.nodes, old), in_path_order(after.nodes, new)
    found = _by_name(before.nodes, after.nodes, old_path, new_path)
    found |= _by_content(before.nodes, after.nodes, old_path, new_path)
    found |= _by_place(before.nodes, after.nodes, old_path, new_path, found)
    backwards = {number: like for like, number in found.items()}
    gone = [(number, None) for number in old_path if number not in found]
    return [*((backwards.get(number), number) for number in new_path), *gone]


def in_path_order(nodes: Sequence[NodeEntry], members: Iterable[int]) -> list[int]:
    """Return the members so that each comes after its parents and paths stay together, whatever the order of
    their statements was."""
    inside = set(members)
    read = {parent for number in inside for parent in nodes[number].parents}
    ends = sorted(inside - read, key=lambda number: (_anchor(nodes[number]), content(nodes[number])))
    found: dict[int, None] = {}
    stack = [(number, False) for number in reversed(ends)]
    while stack:
        number, parents_done = stack.pop()
        if number in found:
            continue
        if parents_done:
            found[number] = None
            continue
        stack.append((number, True))
        stack += [(parent, False) for parent in reversed(nodes[number].parents) if parent in inside]
    return [*found, *sorted(inside - found.keys())]


def content(node: NodeEntry) -> Content:
    """Return what a step is, without its place and its source line."""
    parts = [node.stores, node.on_error, node.options, node.key, node.value, node.code]
    rest = msgspec.json.encode(parts, order="deterministic")
    return (str(node.kind), node.name, node.topic, rest.decode())


def _anchor(node: NodeEntry) -> Content:
    """Return what finds a step wherever it is; empty if nothing does."""
    if node.name:
        return ("name", node.name)
    return ("topic", str(node.kind), node.topic) if node.topic else ()


def _by_name(
    before: Sequence[NodeEntry], after: Sequence[NodeEntry], old: Sequence[int], new: Sequence[int]
) -> dict[int, int]:
    """Match steps by name, else by kind and topic. Two sinks of one topic are matched in their order."""
    waiting: dict[Content, list[int]] = {}
    for number in new:
        if anchor := _anchor(after[number]):
            waiting.setdefault(anchor, []).append(number)
    found: dict[int, int] = {}
    for number in old:
        if like := waiting.get(_anchor(before[number])):
            found[number] = like.pop(0)
    return found


def _by_content(
    before: Sequence[NodeEntry], after: Sequence[NodeEntry], old: Sequence[int], new: Sequence[int]
) -> dict[int, int]:
    """Match the steps without a name or topic that are unique."""
    here, there = _unique(before, old), _unique(after, new)
    return {number: there[key] for key, number in here.items() if key in there}


def _unique(nodes: Sequence[NodeEntry], numbers: Iterable[int]) -> dict[Content, int]:
    found: dict[Content, list[int]] = {}
    for number in numbers:
        if not _anchor(nodes[number]):
            found.setdefault(content(nodes[number]), []).append(number)
    return {key: some[0] for key, some in found.items() if len(some) == 1}


def _by_place(
    before: Sequence[NodeEntry],
    after: Sequence[NodeEntry],
    old: Sequence[int],
    new: Sequence[int],
    known: Mapping[int, int],
) -> dict[int, int]:
    """Match the remaining steps: equal ones first, then those of the same kind between them. The steps that
    are known already take part, so that a step is found between the same neighbours."""
    backwards = {number: like for like, number in known.items()}
    old_keys = [("known", str(number)) if number in known else content(before[number]) for number in old]
    new_keys = [
        ("known", str(backwards[number])) if number in backwards else content(after[number]) for number in new
    ]
    found: dict[int, int] = {}
    for tag, low, high, first, last in SequenceMatcher(
        None, old_keys, new_keys, autojunk=False
    ).get_opcodes():
        if tag == "equal":
            found |= zip(old[low:high], new[first:last], strict=True)
        elif tag == "replace":
            left = [one for one in old[low:high] if one not in known and not _anchor(before[one])]
            right = [one for one in new[first:last] if one not in backwards and not _anchor(after[one])]
            here, there = [str(before[one].kind) for one in left], [str(after[one].kind) for one in right]
            for at, like, size in SequenceMatcher(None, here, there, autojunk=False).get_matching_blocks():
                found |= zip(left[at:][:size], right[like:][:size], strict=True)
    return {number: like for number, like in found.items() if number not in known}
