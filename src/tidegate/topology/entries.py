"""The parts of a manifest."""

from __future__ import annotations

from typing import Any

import msgspec

from tidegate.topology.node import labelled


class StoreEntry(msgspec.Struct, frozen=True):
    """A store: its kind and schemas, and its changelog's topic if it has one."""

    kind: str
    key: dict[str, Any]
    value: dict[str, Any]
    changelog: str | None
    role: str
    component: str
    born: int = 1
    """The generation in which its changelog was created."""
    options: dict[str, Any] = {}
    """What else decides which rows it holds: its retention, its window size, its capacity."""


class GateEntry(msgspec.Struct, frozen=True):
    """The topics of a gate, and how many partitions all but the audit topic have."""

    status: str
    trigger: str
    admitted: str
    audit: str
    partitions: int
    key: str = ""
    """The name of the serde of its keys; empty for apps that an earlier version started."""
    value: str = ""
    """The name of the serde of its values as of the newest start: for displaying them."""


class ModelEntry(msgspec.Struct, frozen=True):
    """The topics of a model, and what clients may know of it."""

    changelog: str
    requests: str
    events: str
    partitions: int
    appendable: bool
    """Whether diffs may come by HTTP: not if they are derived from another stream."""
    max_state: int
    state: dict[str, Any] = {}
    """The JSON schema of its states as of the newest start."""
    diff: dict[str, Any] = {}
    """The JSON schema of its diffs as of the newest start."""


class NodeEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of the app."""

    kind: str
    name: str = ""
    topic: str = ""
    location: str = ""
    """Its source line as of the newest start: `orders.py:28`."""
    parents: list[int] = []
    """The steps that it reads from, as numbers in `Manifest.nodes`."""
    stores: list[str] = []
    on_error: str = ""
    options: dict[str, Any] = {}
    key: dict[str, Any] = {}
    """The schema of the keys that it reads or writes; empty if it does neither."""
    value: dict[str, Any] = {}
    code: dict[str, str] = {}
    """The digest of each function and type of the user, by its role; see `CodeEntry.fingerprints`."""
    rows: bool = False
    """Whether it writes to a table topic. Earlier versions did not record it."""

    @property
    def label(self) -> str:
        """Its name in messages and pictures."""
        return labelled(self.kind, self.name or self.topic)


class SubtopologyEntry(msgspec.Struct, frozen=True):
    """The steps that one stream task per partition runs."""

    number: int
    nodes: list[int]
    """As numbers in `Manifest.nodes`."""


class ComponentEntry(msgspec.Struct, frozen=True):
    """A component, and the generation in which it was calculated: its tasks have that generation."""

    generation: int
    subtopologies: list[SubtopologyEntry]
    structure: str = ""
    """A digest of everything but the code. Empty for apps that an earlier version started."""
    digest: str = ""
    """A digest of the structure and the code."""

    def nodes(self) -> list[int]:
        """Return its steps."""
        return [node for sub in self.subtopologies for node in sub.nodes]
