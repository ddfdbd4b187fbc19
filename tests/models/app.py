"""The model of the tests: workflows, as in docs/models.md."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tidegate import App, Json, Topic


class Started(Struct, tag="started", frozen=True):
    title: str


class StepDone(Struct, tag="step-done", frozen=True):
    step: str
    seconds: float


class Closed(Struct, tag="closed", frozen=True):
    """Removes a workflow."""


Event = Started | StepDone | Closed


class Workflow(Struct, frozen=True):
    title: str = ""
    steps: dict[str, float] = {}


EVENTS = Topic("workflow-events", Json[Event]())


def reducer(state: Workflow, event: Event) -> Workflow | None:
    match event:
        case Started(title):
            return replace(state, title=title)
        case StepDone(step, seconds):
            if seconds < 0:
                raise ValueError("back in time")
            return replace(state, steps={**state.steps, step: seconds})
        case Closed():
            return None


def workflows(**options: Any) -> App:
    app = App("workflows")
    app.model("workflows", source=EVENTS, initial=Workflow, **options)(reducer)
    return app
