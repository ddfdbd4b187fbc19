"""Workflows that browsers show live: a model over the events of backends.

tidegate run workflows:app
tidegate serve
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tidegate import App, Json, Topic


class Started(Struct, tag="started", frozen=True):
    title: str


class StepDone(Struct, tag="step-done", frozen=True):
    step: str
    seconds: float


Event = Started | StepDone


class Workflow(Struct, frozen=True):
    title: str = ""
    steps: dict[str, float] = {}


EVENTS = Topic("workflow-events", Json[Event]())  # a union is no class: name the format
app = App("workflows")


@app.model("workflows", source=EVENTS, initial=Workflow)  # the name is the path: /workflows
def workflows(state: Workflow, event: Event) -> Workflow:
    match event:
        case Started(title):
            return replace(state, title=title)
        case StepDone(step, seconds):
            return replace(state, steps={**state.steps, step: seconds})
