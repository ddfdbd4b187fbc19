"""`tidegate models`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from tests.cli.conftest import Run
from tests.gate.working import Working
from tests.models.app import EVENTS, Closed, Started, StepDone, Workflow, reducer, workflows
from tests.models.checks import assert_rows_are_the_fold

from tidegate import App
from tidegate.cli.typescript import declarations
from tidegate.log.sqlite.log import SqliteLog
from tidegate.models.patch import apply
from tidegate.testing import Driver


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    (tmp_path / ".tidegate").mkdir()
    with (
        closing(SqliteLog(tmp_path / ".tidegate" / "log.db")) as log,
        Driver(workflows(), partitions=2, log=log) as made,
    ):
        made.send(EVENTS, "w1", Started("Ship"), StepDone("pack", 1.5))
        made.send(EVENTS, "w/2 ü", Started("Bill"))
        made.send(EVENTS, "w3", Started("Gone"), Closed())
        made.run()
        yield made


def test_models_and_ids_are_listed(run: Run, driver: Driver) -> None:
    [model] = run("models", "ls", "--json").json
    assert (model["app"], model["model"], model["partitions"]) == ("workflows", "workflows", 2)
    assert "workflows-workflows-events" in run("models", "ls").out
    ids = run("models", "ls", "workflows", "--json").json
    assert {one["id"]: one["sequence"] for one in ids} == {"w1": 2, "w/2 ü": 1}
    assert len(run("models", "ls", "workflows/workflows", "--limit", "1", "--json").json) == 1
    assert "w1" in run("models", "ls", "workflows").out


def test_a_state_and_what_changed_since_a_version(run: Run, driver: Driver) -> None:
    held, before = driver.model("workflows").token("w1"), run("models", "get", "workflows", "w1").json
    assert before == {"title": "Ship", "steps": {"pack": 1.5}}
    driver.send(EVENTS, "w1", StepDone("send", 2.0), Started("Shipped"))
    driver.run()
    frame = run("models", "get", "workflows", "w1", "--since", held).json
    assert (frame["event"], frame["from"]) == ("patch", held)
    assert apply(before, frame["patch"]) == run("models", "get", "workflows", "w1").json


def test_changes_are_followed_from_a_version_on(run: Run, driver: Driver) -> None:
    first = run("models", "tail", "workflows", "w1", "--limit", "1").json
    assert (first["event"], first["state"]["title"]) == ("state", "Ship")
    driver.send(EVENTS, "w1", Started("Shipped"))
    driver.run()
    lines = run("models", "tail", "workflows", "w1", "--since", first["token"], "--timeout", "0.1").out
    [frame] = [msgspec.json.decode(line) for line in lines.splitlines()]
    assert (frame["event"], frame["patch"]) == ("patch", {"*": {"title": {"=": "Shipped"}}})


def test_the_versions_of_an_id(run: Run, driver: Driver) -> None:
    events = run("models", "history", "workflows", "w3", "--json").json
    assert [(one["sequence"], one["kind"]) for one in events] == [(1, "created"), (2, "gone")]
    assert "gone" in run("models", "history", "workflows", "w3").out


@pytest.fixture
def working(tmp_path: Path) -> Iterator[Working]:
    """The app at work in a thread: it decides on requests."""
    (tmp_path / ".tidegate").mkdir()
    with (
        closing(SqliteLog(tmp_path / ".tidegate" / "log.db")) as log,
        closing(Working(log, tmp_path, workflows)) as made,
    ):
        yield made


def test_an_id_is_created_changed_and_removed(run: Run, working: Working) -> None:
    created = run("models", "create", "workflows", "w1", '{"type":"started","title":"Ship"}', "--json").json
    assert created["outcome"] == "created"
    step = '{"type":"step-done","step":"pack","seconds":1}'
    appended = run(
        "models", "append", "workflows", "w1", step, "--expect", created["token"], "--request", "r1"
    )
    assert appended.out.startswith("appended w1 at workflows/workflows: 1-2-")
    again = run("models", "append", "workflows", "w1", step, "--expect", created["token"], "--request", "r1")
    assert again.out == appended.out, "it had no second effect"
    assert run("models", "get", "workflows", "w1").json == {"title": "Ship", "steps": {"pack": 1.0}}
    for arguments, code in {
        ("append", "w1", '{"type":"closed"}', "--expect", created["token"]): "other-version",
        ("append", "w1", '{"type":"unknown"}'): "bad-diff",
        ("append", "w1", "{"): "bad-diff",
        ("append", "w9", '{"type":"closed"}'): "no-such-id",
        ("create", "w1"): "id-exists",
        ("append", "w1", '{"type":"closed"}', "--request", "r1"): "idempotency-mismatch",
    }.items():
        assert f"[{code}]" in run("models", arguments[0], "workflows", *arguments[1:], code=1).err
    assert run("models", "delete", "workflows", "w1").out.startswith("deleted w1")


def test_a_request_that_nobody_decides_on_is_reported(run: Run, driver: Driver) -> None:
    driver.stop()
    failed = run("models", "delete", "workflows", "w1", "--wait", "0.2", code=1)
    assert "[not-decided]" in failed.err
    driver.run()
    assert driver.model("workflows").state("w1") is None


def test_a_model_of_a_derived_stream_takes_no_requests(run: Run, driver: Driver) -> None:
    app = App("derived")
    app.model("titles", source=app.stream(EVENTS).filter(bool), initial=Workflow)(reducer)
    with Driver(app, log=driver.log) as d:
        d.run()
    assert "[not-appendable]" in run("models", "delete", "titles", "w1", code=1).err


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (("get", "nothing", "w1"), "no-such-model", "workflows/workflows"),
        (("get", "workflows", "w9"), "no-such-id", "never existed"),
        (("get", "workflows", "w3"), "no-such-id", "was removed"),
        (("get", "workflows", "w1", "--since", "x"), "bad-token", "not a token"),
    ],
)
def test_what_does_not_exist(
    run: Run, driver: Driver, arguments: tuple[str, ...], code: str, hint: str
) -> None:
    failed = run("models", *arguments, code=1)
    assert code in failed.err
    assert hint in failed.err


def test_a_name_that_two_apps_have(run: Run, driver: Driver) -> None:
    other = App("other")
    other.model("workflows", initial=dict)(lambda state, diff: {**state, **diff})
    with Driver(other, log=driver.log) as d:
        d.run()
    assert "other/workflows, workflows/workflows" in run("models", "ls", "workflows", code=1).err


def test_after_a_reset_the_rows_are_the_fold_of_the_events_again(run: Run, driver: Driver) -> None:
    """Requests are kept, like sources; events are written again."""
    driver.model("workflows").create("w4", {"type": "started", "title": "Asked for"})
    driver.run()
    before = driver.model("workflows").rows()
    driver.stop()
    run("reset", "workflows", "--yes", "--force")
    driver.run()
    model = driver.model("workflows")
    assert model.rows() == before
    assert [one.sequence for one in model.events("w1")] == [1, 2]
    assert [one.sequence for one in model.events("w4")] == [1]
    assert_rows_are_the_fold(model)


def test_types_for_typescript(run: Run, driver: Driver) -> None:
    assert run("models", "types", "workflows").out == (
        "export type Workflow = {\n  title?: string;\n  steps?: { [key: string]: number };\n};\n"
        'export type Started = {\n  type: "started";\n  title: string;\n};\n'
        'export type StepDone = {\n  type: "step-done";\n  step: string;\n  seconds: number;\n};\n'
        'export type Closed = {\n  type: "closed";\n};\n'
        "export type WorkflowsState = Workflow;\n"
        "export type WorkflowsDiff = Started | StepDone | Closed;\n"
    )


def test_odd_types_for_typescript() -> None:
    class Odd(msgspec.Struct):
        plain: dict[str, int | None]
        tuple_: tuple[int, str] = msgspec.field(name="a-b")
        lists: list[int | str] = []

    text = declarations({"Odd": msgspec.json.schema(Odd), "Any": {}})
    assert "plain: { [key: string]: number | null };" in text
    assert '"a-b": [number, string];' in text
    assert "lists?: (number | string)[];" in text
    assert "export type Any = unknown;" in text
