"""The differences between two versions of an app, as data: what is new, gone, changed or kept in each
component, and why. `compare` creates them; a plan and a refusal are made of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

Verdict = Literal["new", "gone", "changed", "kept"]


class ChangeKind(StrEnum):
    """The kinds of changes that a service goes through. One edit may be several of them."""

    NEW_SOURCE = "new source"
    REMOVED_SOURCE = "removed source"
    SOURCE_KEY = "source key change"
    MORE_STATE = "more state"
    PRIVATE_SCHEMA = "private schema"
    LESS_STATE = "less state"
    CONFIGURATION = "configuration"
    LOGIC = "logic"


class Thing(StrEnum):
    """What a change is about."""

    NODE = "node"
    STORE = "store"
    SOURCE = "source"
    SINK = "sink"
    GATE = "gate"
    MODEL = "model"
    INTERNAL = "internal topic"


class Reason(msgspec.Struct, frozen=True, omit_defaults=True):
    """One difference. `before` and `after` are source lines, `file:line`, where they are known."""

    what: str
    kinds: list[ChangeKind] = []
    unit: str = ""
    """The name of the unit of source code that differs: `shop.prices:discount`."""
    before: str = ""
    after: str = ""
    through: str = ""
    """The role of the function of the node that reaches the unit: `add`."""
    upstream: bool = False
    """Whether it is about a step before this one."""


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing of the app and its verdict. `location` is the line of the newer version that declares it, or
    of the older one if it is gone."""

    verdict: Verdict
    thing: Thing
    label: str
    """As in messages: `filter`, `aggregate "totals"`, `store "totals"`."""
    name: str = ""
    """The name that the user chose, or its topic's; empty for a step without one."""
    location: str = ""
    reasons: list[Reason] = []
    kinds: list[ChangeKind] = []
    part_of: str = ""
    """The gate or model that it belongs to, if it is a topic of one."""


class ComponentChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One component. A component that is kept has only kept things."""

    id: str
    verdict: Verdict
    generation: int = 0
    """The generation that it runs in now; 0 for a new one."""
    kinds: list[ChangeKind] = []
    changes: list[Change] = []
    reasons: list[Reason] = []
    """What concerns no single thing of it, such as a setting."""

    def of(self, thing: Thing) -> list[Change]:
        return [change for change in self.changes if change.thing is thing]


class EnvironmentChange(msgspec.Struct, frozen=True):
    """Another version of what the app runs on. Whether results differ cannot be seen from the source."""

    what: Literal["python", "package", "algorithm"]
    name: str
    before: str
    after: str
    used_by: list[str] = []
    """The ids of the components whose code mentions it."""


class Changes(msgspec.Struct, frozen=True):
    """All differences between two versions of an app."""

    app: str
    components: list[ComponentChange]
    kinds: list[ChangeKind] = []
    environment: list[EnvironmentChange] = []

    @property
    def nothing(self) -> bool:
        """Whether every component is kept."""
        return all(component.verdict == "kept" for component in self.components)

    def component(self, id: str) -> ComponentChange:
        """Return the component of this id."""
        return next(component for component in self.components if component.id == id)


def in_order(kinds: set[ChangeKind]) -> list[ChangeKind]:
    """Return the kinds in the order of their declaration."""
    return [kind for kind in ChangeKind if kind in kinds]
