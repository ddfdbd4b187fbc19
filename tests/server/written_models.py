"""What the tests of writing to models share: the app, calls, and what is in the log."""

from __future__ import annotations

from typing import Any

from tests.models.app import EVENTS, Workflow, reducer
from tests.server.conftest import Client

from tidegate import App
from tidegate.log.protocol import Log
from tidegate.log.reads import fold
from tidegate.models.row import ModelRow, decode_row
from tidegate.types import TopicPartition

PATH = "/workflows"
STARTED = {"type": "started", "title": "Ship"}
REQUESTS, EVENTS_TOPIC, CHANGELOG = (
    f"workflows-workflows-{what}" for what in ("requests", "events", "changelog")
)


def without_source() -> App:
    """The workflows of the tests; diffs come by HTTP only."""
    app = App("workflows")
    app.model("workflows", initial=Workflow, max_state=100_000)(reducer)
    app.model("documents", initial=dict)(merged)
    return app


def merged(state: dict[str, Any], diff: dict[str, Any]) -> dict[str, Any]:
    return {**state, **diff}


def derived() -> App:
    app = App("workflows")
    app.model("workflows", source=app.stream(EVENTS).filter(bool), initial=Workflow)(reducer)
    return app


def step(name: str, seconds: float = 1.0) -> dict[str, Any]:
    return {"type": "step-done", "step": name, "seconds": seconds}


def row_of(log: Log, id: str) -> ModelRow:
    partitions = [TopicPartition(CHANGELOG, number) for number in range(2)]
    rows = {key: value for one in partitions for key, (value, _) in fold(log, one).items()}
    return decode_row(rows.get(id.encode()))


def state_of(log: Log, id: str) -> Any:
    return row_of(log, id).document()


def created(client: Client, id: str = "w1", diff: Any = STARTED) -> str:
    answer = client.post(PATH, json={"id": id, "diff": diff})
    assert answer.status_code == 201, answer.text
    token: str = answer.json()["token"]
    return token


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def key(text: str) -> dict[str, str]:
    return {"Idempotency-Key": text}
