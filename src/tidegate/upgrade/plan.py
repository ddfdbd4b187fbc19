"""The plan of an upgrade, as data: what happens to each component, what must be decided first, and what
cannot be seen. `make_plan` creates it, `plan_text` prints it, and an upgrade follows it."""

from __future__ import annotations

from typing import Literal

import msgspec

from tidegate.changes.changes import Changes, Verdict
from tidegate.runtime.topics.upgrades import Question

Action = Literal["keep", "recalculate", "start", "remove"]
State = Literal["nothing", "changes", "ask"]
EXIT_CODES: dict[State, int] = {"nothing": 0, "changes": 2, "ask": 3}


class Reads(msgspec.Struct, frozen=True):
    """A topic that is read again, from its first record that the app may have read to its end."""

    topic: str
    records: int
    """The number of offsets: an upper limit, since compaction and transaction markers leave gaps."""
    starts: list[int]
    """The first offset of each partition."""
    complete: bool
    """Whether no record was deleted since the app first read the topic, or since ever if it is new to it."""
    new: bool = False
    """Whether the running generation does not read it."""


class Publishes(msgspec.Struct, frozen=True):
    """A sink. Of a table topic the rows that differ are published; of an event topic nothing: events that the
    app sends after the switch are the only ones."""

    topic: str
    kind: Literal["table", "events"]
    rows_at_most: int = 0
    """How many rows the topic can hold now."""
    new: bool = False


class GatePlan(msgspec.Struct, frozen=True):
    """A gate. Its status, held events and positions are carried over: no event passes it twice."""

    name: str
    verdict: Verdict
    held: int = 0
    paused: int = 0


class ModelPlan(msgspec.Struct, frozen=True):
    """A model. Each id whose state differs gets one more version; tokens of clients remain valid."""

    name: str
    verdict: Verdict


class OrderSensitive(msgspec.Struct, frozen=True):
    """A step whose result depends on more than the records of each key in their order."""

    label: str
    location: str
    why: str


class SubtopologyPlan(msgspec.Struct, frozen=True):
    """A subtopology. Without `replay` it continues from its positions, as one with only a gate does."""

    number: int
    replay: bool
    reads: list[Reads] = []


class ComponentPlan(msgspec.Struct, frozen=True):
    """What happens to one component."""

    id: str
    action: Action
    before: int
    """The generation that it runs in now; 0 for a new one."""
    after: int
    """The generation that it will run in; 0 for one that is removed."""
    subtopologies: list[SubtopologyPlan] = []
    publishes: list[Publishes] = []
    stores: list[str] = []
    """The stores that are calculated again."""
    gates: list[GatePlan] = []
    models: list[ModelPlan] = []
    order_sensitive: list[OrderSensitive] = []

    @property
    def reads(self) -> list[Reads]:
        """The topics that are read again, each once."""
        found = (one for sub in self.subtopologies for one in sub.reads)
        return list({one.topic: one for one in found}.values())


class Note(msgspec.Struct, frozen=True):
    """Something that the plan cannot see, or that is good to know."""

    code: str
    text: str
    location: str = ""
    hint: str = ""


class UpgradePlan(msgspec.Struct, frozen=True):
    """What a start of this version of an app means."""

    app: str
    state: State
    before: int
    """The generation that runs; 0 if the app never ran."""
    after: int
    components: list[ComponentPlan]
    changes: Changes
    questions: list[Question] = []
    notes: list[Note] = []

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.state]
