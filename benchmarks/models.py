"""`python -m benchmarks.models`: what models cost, with the embedded log and without Spark.

behind    the answer to a client that is 10, 1,000 and 100,000 events behind: from one row, beside the fold of
          the events that it replaces (at least 20 times as fast at 100,000)
ingest    events per second on one core, by the size of the states (at least 5,000 with 1 KB)
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.gate import Bench
from benchmarks.report import Report, percentile, run
from tidegate import App, Topic
from tidegate.models.answer import answer
from tidegate.models.document import Documents
from tidegate.models.fold import Fold
from tidegate.models.patch import Patch, apply
from tidegate.models.row import NEVER, ModelRow, decode_row

ID = "w"
STEPS = 40
"""Of a workflow whose state has about 1 KB."""


class StepDone(msgspec.Struct, frozen=True):
    step: str
    seconds: float


class Workflow(msgspec.Struct, frozen=True):
    title: str = ""
    steps: dict[str, float] = {}


EVENTS = Topic("workflow-events", StepDone)


def reducer(state: Workflow, event: StepDone) -> Workflow:
    return msgspec.structs.replace(state, steps={**state.steps, event.step: event.seconds})


def event(number: int, steps: int) -> StepDone:
    return StepDone(f"step-{number % steps:010d}", number + 0.5)


def behind(report: Report, quick: bool) -> None:
    fold = Fold(Documents(Workflow, 1 << 20), Workflow, reducer, None, StepDone)
    for count in (10, 1_000) if quick else (10, 1_000, 100_000):
        report.progress(f"{count:,} events behind")
        row, patches = fold.apply(NEVER, event(0, STEPS)).row, list[Patch]()
        for number in range(1, STEPS):
            row = fold.apply(row, event(number, STEPS)).row
        held, state = row.token(ID), row.document()
        for number in range(count):
            step = fold.apply(row, event(STEPS + number, STEPS))
            row = step.row
            patches.append(step.patch or {})
        data = msgspec.msgpack.encode(row)
        answered = _seconds(lambda data=data, held=held: _answer(data, held), 20 if quick else 200)
        folded = _seconds(lambda state=state, patches=patches: _folded(state, patches), 3)
        report.measured(f"{count:,} events behind, from one row, p99", percentile(answered, 99) * 1e3, "ms")
        times = percentile(folded, 50) / percentile(answered, 50)
        name = f"{count:,} events behind, times as fast as a fold of the patches"
        if count == 100_000:
            report.at_least(name, times, "x", 20)
        else:
            report.measured(name, times, "x")


def _answer(data: bytes, held: str) -> bytes:
    frame = answer(ID, decode_row(data), held)
    assert frame is not None
    assert frame.kind == "patch"
    return msgspec.json.encode(frame)


def _folded(state: Any, patches: list[Patch]) -> Any:
    for patch in patches:
        state = apply(state, patch)
    return state


def _seconds(call: Any, times: int) -> list[float]:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return found


def ingest(report: Report, quick: bool) -> None:
    """One slot in this process, on one core: from the topic to the row, the event and the commit."""
    for steps in (STEPS, 8 * STEPS) if quick else (STEPS // 4, STEPS, 8 * STEPS, 64 * STEPS):
        count = max(500, min(5_000 if quick else 40_000, 1_600_000 // steps))
        folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
        app = App("bench")
        app.model("workflows", source=EVENTS, initial=Workflow)(reducer)
        one = Bench(app, folder)
        try:
            ids = max(1, 4_000 // steps)
            first = [event(number, steps) for number in range(steps)]
            report.progress(f"states of {steps} steps: {ids} ids")
            one.open()
            _send(one, [(number, done) for number in range(ids) for done in first])
            one.work(one.drained)
            _send(one, [(number % ids, event(number // ids, steps)) for number in range(count)])
            report.progress(f"states of {steps} steps: {count:,} events")
            began = time.process_time()
            one.work(one.drained)
            seconds = time.process_time() - began
            size = _state_bytes(one)
            name = f"ingest, states of {size:,} bytes, on one core"
            if steps == STEPS:
                report.at_least(name, count / seconds, "events/s", 5_000)
            else:
                report.measured(name, count / seconds, "events/s")
        finally:
            one.close()
            shutil.rmtree(folder)


def _send(one: Bench, events: list[tuple[int, StepDone]]) -> None:
    keys = [b"w%06d" % number for number, _ in events]
    one.send(keys, EVENTS.name, [msgspec.json.encode(done) for _, done in events])


def _state_bytes(one: Bench) -> int:
    assert one.slot is not None
    [task] = one.slot.tasks
    [builder] = [
        store
        for node in one.run.context.topology.nodes.values()
        for store in node.stores
        if store.name == "workflows"
    ]
    row: ModelRow = task.state.store(builder).get("w000000")
    return len(row.state)


def measure(report: Report, quick: bool) -> None:
    behind(report, quick)
    ingest(report, quick)


if __name__ == "__main__":
    run("models", measure)
