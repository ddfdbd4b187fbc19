"""The part of a run that a slot's job uses; `driver/run.py` implements it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tidegate.log.positions import TaskId
from tidegate.log.protocol import Writer
from tidegate.runtime.slot.refused_records import Refusals
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.topics.control import Plan, SlotPlan
from tidegate.state.manager import Limits
from tidegate.state.protocol import RestoreListener
from tidegate.topology.graph import Subtopology
from tidegate.topology.manifest import Manifest
from tidegate.types import TopicPartition


class SlotRun(Protocol):
    """An app that is prepared on a log, as its slots use it."""

    @property
    def manifest(self) -> Manifest: ...

    def tasks(self) -> list[tuple[Subtopology, TaskId]]:
        """Return all stream tasks of the app."""
        ...

    def check_topics(self, plan: Plan) -> None:
        """Raise LogError `topic-recreated` for a source that was recreated since the plan was made."""
        ...

    def slot(
        self,
        plan: SlotPlan,
        epoch: int,
        state_dir: Path,
        limits: Limits | None = None,
        listener: RestoreListener | None = None,
        *,
        attempt: int = 0,
        writer: Writer | None = None,
        pinned: Mapping[TopicPartition, int] | None = None,
        refusals: Refusals | None = None,
    ) -> Slot:
        """Return a slot with its planned tasks, which start from the committed positions."""
        ...
