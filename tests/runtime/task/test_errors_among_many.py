"""An error among many records that are decoded together: it names its record, and comes in its turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.runtime.dead_letters import append_raw, dead_letter
from tests.runtime.stories import START
from tests.runtime.task.test_records_together import IN, MANY, OUT, TOTALS, count, fails

from tidegate import App, Context, LogError, Record, SerdeError, Topic, UserCodeError
from tidegate.testing.driver import Driver


def test_a_record_that_cannot_be_decoded_meets_its_policy_among_many() -> None:
    app = App("errors")
    app.stream(IN, on_error="dead-letter").process("count", count, stores=[TOTALS]).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", *[1] * MANY)
        append_raw(d, "in", b"ada", b"no number")
        d.send(IN, "ada", *[1] * MANY)
        d.run()
        assert d.values(OUT) == list(range(1, 2 * MANY + 1))
        record, _ = dead_letter(d)
        assert record.value == b"no number"


def large_at(*numbers: int) -> Callable[[Record[str, int], Context[str, int]], None]:
    """A step that forwards two outputs for each record, and at these numbers one that is no 64-bit int."""

    def step(record: Record[str, int], ctx: Context[str, int]) -> None:
        ctx.forward(record)
        ctx.forward(Record("k", 1 << 70 if record.value in numbers else 0, record.timestamp))

    return step


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("at", [0, 1, 67, MANY - 1])
def test_the_error_of_an_output_names_the_record_that_it_comes_from(at: int, batches: bool) -> None:
    app = App("app")
    app.stream(IN).process("step", large_at(at, at + 2)).to(OUT)
    with Driver(app, batches=batches) as d:
        d.send(IN, "ada", *range(MANY))
        with pytest.raises(SerdeError, match=f"in/0 offset {at}: "):
            d.run()
        assert d.values(OUT) == []


@pytest.mark.parametrize("batches", [True, False])
def test_a_step_may_handle_an_output_that_cannot_be_written(batches: bool) -> None:
    seen: list[int] = []

    def step(record: Record[str, int], ctx: Context[str, int]) -> None:
        seen.append(record.value)
        try:
            ctx.forward(record.with_value(1 << 70 if record.value == 90 else record.value))
        except SerdeError:
            ctx.forward(record.with_value(-1))

    app = App("app")
    app.stream(IN).process("step", step).to(OUT)
    with Driver(app, batches=batches) as d:
        d.send(IN, "ada", *range(MANY))
        d.run()
        assert d.values(OUT) == [-1 if number == 90 else number for number in range(MANY)]
        assert seen == list(range(MANY))


@pytest.mark.parametrize("batches", [True, False])
def test_an_output_that_failed_comes_before_a_step_that_fails_later(batches: bool) -> None:
    bad = large_at(90)

    def step(record: Record[str, int], ctx: Context[str, int]) -> None:
        if record.value == 100:
            raise ValueError("later")
        bad(record, ctx)

    app = App("app")
    app.stream(IN).process("step", step).to(OUT)
    with Driver(app, batches=batches) as d:
        d.send(IN, "ada", *range(MANY))
        with pytest.raises(SerdeError, match="in/0 offset 90: "):
            d.run()


@pytest.mark.parametrize("batches", [True, False])
def test_a_step_that_fails_names_its_record_among_many(batches: bool) -> None:
    app = App("app")
    fails(app)
    with Driver(app, batches=batches) as d:
        d.send(IN, "ada", *[1] * MANY)
        with pytest.raises(UserCodeError, match="in/0 offset 12: ValueError: unlucky"):
            d.run()


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("value", [b"x" * 2000, b"\0" * 5000])
def test_an_output_that_is_too_large_names_its_record(value: bytes, batches: bool) -> None:
    small = Topic("small", bytes, config={"max.message.bytes": "1500"})
    app = App("app")
    totals = app.stream(IN).process("count", count, stores=[TOTALS])
    totals.map(lambda total: value if total == 70 else b"ok").to(small)
    with Driver(app, batches=batches) as d:
        d.send(IN, "ada", *[1] * MANY)
        with pytest.raises(LogError, match="in/0 offset 69: record 0 has") as raised:
            d.run()
        assert raised.value.code == "record-too-large"


@pytest.mark.parametrize("batches", [True, False])
def test_an_event_without_a_value_names_its_record(batches: bool) -> None:
    def step(record: Record[str, int], ctx: Context[str, Any]) -> None:
        ctx.forward(record.with_value(None if record.value == 80 else record.value))

    app = App("app")
    app.stream(IN).process("step", step).to(OUT)
    with Driver(app, batches=batches) as d:
        d.send(IN, "ada", *range(MANY))
        with pytest.raises(SerdeError, match="in/0 offset 80: an event without a value"):
            d.run()


@pytest.mark.parametrize("batches", [True, False])
def test_an_output_of_init_that_fails_belongs_to_no_record(batches: bool) -> None:
    class Step:
        def init(self, ctx: Context[str, int]) -> None:
            ctx.forward(Record("init", 1 << 70, START))

        def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
            ctx.forward(record)

    app = App("app")
    app.stream(IN).process("step", Step).to(OUT)
    with Driver(app, batches=batches) as d:
        d.send(IN, "ada", *range(MANY))
        with pytest.raises(SerdeError, match="does not fit into 64 bits") as raised:
            d.run()
        assert "offset" not in str(raised.value)
