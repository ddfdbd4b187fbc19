"""What user code inside of `process` sees and may do."""

from __future__ import annotations

from typing import Any

import pytest
from tests.runtime.stories import START

from tidegate import App, Context, Record, StateError, TableTopic, Topic, UserCodeError, stores
from tidegate.testing.driver import Driver

IN, OUT, MORE = (Topic(name, int) for name in ("in", "out", "more"))
ROWS = TableTopic("rows", int)
SEEN, OTHER = stores.key_value("seen", int), stores.key_value("other", int)


def test_a_class_is_created_once_per_task_and_called_init_process_close() -> None:
    calls: list[Any] = []

    class Step:
        def __init__(self) -> None:
            calls.append("made")

        def init(self, ctx: Context[str, int]) -> None:
            calls.append(("init", ctx.partition))

        def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
            calls.append(record.value)
            ctx.forward(record)

        def close(self) -> None:
            calls.append("close")

    app = App("api")
    app.stream(IN).process("step", Step).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", 1, 2)
        d.run()
        d.send(IN, "ada", 3)
        d.run()
        d.stop()
        assert calls == ["made", ("init", 0), 1, 2, 3, "close"]
        d.run()
        assert calls[6:] == ["made", ("init", 0)]


def test_a_class_needs_neither_init_nor_close() -> None:
    class Step:
        def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
            ctx.forward(record)

    app = App("api")
    app.stream(IN).process("step", Step).to(OUT)
    with Driver(app, partitions=2) as d:
        d.send(IN, "ada", 1)
        d.run()
        d.stop()
        assert d.values(OUT) == [1]


def test_nothing_in_the_fields_of_a_class_survives_a_crash() -> None:
    from tidegate.testing.driver import Commit

    class Step:
        def init(self, _: Context[str, int]) -> None:
            self.count = 0

        def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
            self.count += 1
            ctx.forward(record.with_value(self.count))

        def close(self) -> None: ...

    app = App("api")
    app.stream(IN).process("step", Step).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", 0, 0)
        d.crash(at=Commit.LOG)
        d.run()
        assert d.values(OUT) == [1, 2]


def test_each_partition_has_its_own_object_and_store() -> None:
    made: list[Any] = []

    class Step:
        def init(self, ctx: Context[str, int]) -> None:
            made.append((self, ctx.partition))

        def process(self, record: Record[str, int], ctx: Context[str, int]) -> None:
            assert record.partition == ctx.partition
            ctx.store(SEEN).put(record.key, record.value)
            ctx.forward(record.with_value(len(list(ctx.store(SEEN).all()))))

        def close(self) -> None: ...

    app = App("api")
    app.stream(IN).process("step", Step, stores=[SEEN]).to(OUT)
    with Driver(app, partitions=3) as d:
        for key in ("a", "b", "c", "d", "e", "f"):
            d.send(IN, key, 1)
        d.run()
        assert sorted(partition for _, partition in made) == [0, 1, 2]
        assert len({id(step) for step, _ in made}) == 3
        assert len(d.store("seen").contents) == 6
        assert max(value or 0 for value in d.values(OUT)) < 6


def run_once(step: Any, **options: Any) -> list[int]:
    app = App("api")
    app.stream(IN).process("step", step, **options).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", 7, timestamp=START - 5, headers=[("trace", b"1")])
        d.run()
        return d.values(OUT)


def test_a_record_has_the_position_where_it_was_read() -> None:
    seen: list[Record[str, int]] = []
    run_once(lambda record, _: seen.append(record))
    assert seen == [Record("ada", 7, START - 5, (("trace", b"1"),), "in", 0, 0)]


def test_the_context_has_the_times_and_the_partition() -> None:
    reported: list[Any] = []

    class Step:
        def init(self, ctx: Context[str, int]) -> None:
            reported.append((ctx.stream_time, ctx.now(), ctx.replaying))

        def process(self, _: Record[str, int], ctx: Context[str, int]) -> None:
            reported.append((ctx.stream_time, ctx.now(), ctx.partition))

        def close(self) -> None: ...

    app = App("api")
    app.stream(IN).process("step", Step)
    with Driver(app) as d:
        d.send(IN, "ada", 1, timestamp=START - 5)
        d.send(IN, "ada", 1, timestamp=START - 9)
        d.run()
        d.advance(100)
        d.move()
        d.run()
    assert reported == [
        (-1, START, False),
        (START - 5, START, 0),
        (START - 5, START, 0),
        (START - 5, START + 100, False),
    ]


def test_a_store_that_was_not_declared_is_refused_by_name() -> None:
    with pytest.raises(StateError, match=r"in/0 offset 0.*'other'") as caught:
        run_once(lambda _, ctx: ctx.store(OTHER), stores=[SEEN])
    assert caught.value.code == "undeclared-store"


def test_a_store_is_reached_by_its_own_builder_not_by_one_that_looks_alike() -> None:
    with pytest.raises(StateError, match="undeclared-store"):
        run_once(lambda _, ctx: ctx.store(stores.key_value("seen", int)), stores=[SEEN])


def to_two(record: Record[str, int], ctx: Context[str, int]) -> None:
    ctx.forward(record, to="even" if record.value % 2 == 0 else "odd")


def test_forward_reaches_all_children_or_the_one_that_is_named() -> None:
    app = App("api")
    halves = app.stream(IN).process("split", to_two)
    halves.process("even", send_on).to(OUT)
    halves.process("odd", send_on).to(MORE)
    with Driver(app) as d:
        d.send(IN, "ada", 1, 2, 3)
        d.run()
        assert (d.values(OUT), d.values(MORE)) == ([2], [1, 3])
    both = App("api")
    all_of_them = both.stream(IN).process("step", send_on)
    all_of_them.to(OUT)
    all_of_them.to(MORE)
    with Driver(both) as d:
        d.send(IN, "ada", 1, 2)
        d.run()
        assert d.values(OUT) == d.values(MORE) == [1, 2]


def send_on(record: Record[str, int], ctx: Context[str, int]) -> None:
    ctx.forward(record)


def test_forward_to_a_child_that_is_not_there_names_those_that_are() -> None:
    app = App("api")
    app.stream(IN).process("split", to_two).process("even", send_on).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", 1)
        with pytest.raises(UserCodeError, match=r"'odd'.*even") as caught:
            d.run()
    assert caught.value.code == "no-such-child"


@pytest.mark.parametrize("what", [5, None, ("ada", 1)])
def test_only_records_are_forwarded(what: Any) -> None:
    with pytest.raises(UserCodeError, match="wrong-type"):
        run_once(lambda _, ctx: ctx.forward(what))


def test_a_step_may_forward_many_times_or_never() -> None:
    assert run_once(never) == []
    assert run_once(three_times) == [0, 1, 2]


def never(record: Record[str, int], ctx: Context[str, int]) -> None:
    """Forwards nothing."""


def three_times(record: Record[str, int], ctx: Context[str, int]) -> None:
    for number in range(3):
        ctx.forward(record.with_value(number))


def test_a_step_may_forward_records_of_its_own_from_init() -> None:
    class Step:
        def init(self, ctx: Context[str, int]) -> None:
            ctx.forward(Record("hello", 1, ctx.now()))

        def process(self, record: Record[str, int], ctx: Context[str, int]) -> None: ...

        def close(self) -> None: ...

    assert run_once(Step) == [1]


def test_forwarding_after_close_is_refused() -> None:
    kept: list[Context[str, int]] = []

    def step(record: Record[str, int], ctx: Context[str, int]) -> None:
        kept.append(ctx)

    run_once(step)
    with pytest.raises(StateError, match="forwards after its close"):
        kept[0].forward(Record("ada", 1, 1))


def test_an_init_that_raises_stops_with_its_line() -> None:
    class Step:
        def init(self, _: Context[str, int]) -> None:
            raise ValueError("no")

        def process(self, record: Record[str, int], ctx: Context[str, int]) -> None: ...

        def close(self) -> None: ...

    line = Step.init.__code__.co_firstlineno + 1
    with pytest.raises(UserCodeError, match=f"init: ValueError: no at test_processor_api.py:{line}"):
        run_once(Step)
