"""Every mistake is reported with its code, its step and the user's own line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tidegate import App, ConfigError, Context, Record, TableTopic, Topic, TopologyError, stores

IN, MORE, OUT = (Topic(name, int) for name in ("in", "more", "out"))
ROWS, TOTALS = TableTopic("rows", int), TableTopic("totals", int)
TIMERS = stores.timers("timers")
ANY: Any = "not a function"


def step(record: Record[str, int], ctx: Context[str, int]) -> None:
    """Does nothing."""


class Untimed:
    def process(self, record: Record[str, int], ctx: Context[str, int]) -> None: ...


class Timed(Untimed):
    def on_timer(self, key: str, at: int, ctx: Context[str, int]) -> None: ...


def name_of(value: int) -> str:
    return f"{value}"


def same(record: Record[str, int]) -> Record[str, int]:
    return record


def unknown_initial(app: App) -> None:
    app.stream(IN).aggregate("totals", lambda: 0, lambda total, value: total + value).to(TOTALS)  # here


def unknown_value(app: App) -> None:
    app.stream(IN).map(lambda value: value).repartition("again").to(OUT)  # here


def two_of_one_name(app: App) -> None:
    app.stream(IN).count("counts").to(TOTALS)
    app.stream(MORE).process("counts", step)  # here


def two_stores_of_one_name(app: App) -> None:
    app.stream(IN).process("one", step, stores=[stores.key_value("kept", int)])
    app.stream(IN).process("two", step, stores=[stores.key_value("kept", str)])  # here


def two_topics_of_one_name(app: App) -> None:
    app.stream(IN).to(OUT)
    app.stream(MORE).to(Topic("out", int))  # here


def a_loop(app: App) -> None:
    app.stream(IN).filter(bool).to(IN)  # here


def a_dangling_step(app: App) -> None:
    app.stream(IN).to(OUT)
    app.stream(IN).filter(bool)  # here


def a_branch_that_leads_nowhere(app: App) -> None:
    app.stream(IN).to(OUT)
    app.stream(IN).branch(bool)  # here


def state_behind_a_bare_select_key(app: App) -> None:
    app.stream(IN).select_key(name_of).count("counts").to(TOTALS)  # here


def a_join_behind_a_bare_select_key(app: App) -> None:
    app.stream(IN).select_key(name_of).join(app.table(ROWS), lambda one, two: one + two).to(OUT)  # here


def state_behind_a_process(app: App) -> None:
    app.stream(IN).process("step", step).count("counts").to(TOTALS)  # here


def state_behind_a_merge_with_other_keys(app: App) -> None:
    app.stream(IN).merge(app.stream(MORE).select_key(name_of)).count("counts").to(TOTALS)  # here


def a_source_in_two_ways(app: App) -> None:
    app.stream(ROWS).count("counts").to(TOTALS)
    app.table(ROWS).to(TableTopic("copy", int))  # here


def a_source_with_two_policies(app: App) -> None:
    app.stream(IN).to(OUT)
    app.stream(IN, on_error="skip").to(OUT)  # here


def an_unknown_policy(app: App) -> None:
    app.stream(IN, on_error="ignore").to(OUT)  # type: ignore[call-overload]  # here


def no_function(app: App) -> None:
    app.stream(IN).map(ANY).to(OUT)  # here


def an_illegal_name(app: App) -> None:
    app.stream(IN).repartition("a/b").to(OUT)  # here


def a_reserved_name(app: App) -> None:
    app.stream(IN).process("step.g2", step)  # here


def a_merge_with_another_app(app: App) -> None:
    app.stream(IN).merge(App("other").stream(MORE)).to(OUT)  # here


def a_join_with_another_app(app: App) -> None:
    app.stream(IN).join(App("other").table(ROWS), lambda one, two: one + two).to(OUT)  # here


def a_table_join_with_another_app(app: App) -> None:
    app.table(TOTALS).join(App("other").table(ROWS), lambda one, two: one + two).to(ROWS)  # here


def a_count_in_a_window_store(app: App) -> None:
    app.stream(IN).count(stores.window("counts", int, size=10, retention=10)).to(TOTALS)  # here


def timers_of_a_function(app: App) -> None:
    app.stream(IN).process("step", step, stores=[TIMERS])  # here


def timers_of_a_class_that_they_cannot_call(app: App) -> None:
    app.stream(IN).process("step", Untimed, stores=[TIMERS])  # here


def timers_of_a_count(app: App) -> None:
    app.stream(IN).count(TIMERS).to(TOTALS)  # here


def two_timers_of_one_step(app: App) -> None:
    app.stream(IN).process("step", Timed, stores=[TIMERS, stores.timers("more")])  # here


def timers_of_two_steps(app: App) -> None:
    app.stream(IN).process("one", Timed, stores=[TIMERS])
    app.stream(IN).process("two", Timed, stores=[TIMERS])  # here


MISTAKES: list[tuple[Callable[[App], None], str, str]] = [
    (unknown_initial, "missing-serde", 'aggregate "totals"'),
    (unknown_value, "missing-serde", 'repartition "again"'),
    (two_of_one_name, "duplicate-name", 'process "counts"'),
    (two_stores_of_one_name, "duplicate-store", 'process "two"'),
    (two_topics_of_one_name, "topic-declared-twice", 'sink "out"'),
    (a_loop, "loop", 'sink "in"'),
    (a_dangling_step, "dangling", "filter"),
    (a_branch_that_leads_nowhere, "dangling", "branch"),
    (state_behind_a_bare_select_key, "not-where-its-key-belongs", 'aggregate "counts"'),
    (a_join_behind_a_bare_select_key, "not-where-its-key-belongs", "join"),
    (state_behind_a_process, "not-where-its-key-belongs", 'aggregate "counts"'),
    (state_behind_a_merge_with_other_keys, "not-where-its-key-belongs", 'aggregate "counts"'),
    (a_source_in_two_ways, "source-declared-twice", 'table "rows"'),
    (a_source_with_two_policies, "source-declared-twice", 'source "in"'),
    (an_unknown_policy, "bad-on-error", 'source "in"'),
    (no_function, "not-callable", "map"),
    (an_illegal_name, "illegal-name", 'repartition "a/b"'),
    (a_reserved_name, "reserved-name", 'process "step.g2"'),
    (a_merge_with_another_app, "other-app", "merge"),
    (a_join_with_another_app, "other-app", "join"),
    (a_table_join_with_another_app, "other-app", "table join"),
    (a_count_in_a_window_store, "wrong-store", 'aggregate "counts"'),
    (timers_of_a_function, "no-on-timer", 'process "step"'),
    (timers_of_a_class_that_they_cannot_call, "no-on-timer", 'process "step"'),
    (timers_of_a_count, "no-on-timer", 'aggregate "timers"'),
    (two_timers_of_one_step, "two-timers", 'process "step"'),
    (timers_of_two_steps, "shared-timers", 'process "two"'),
]


@pytest.mark.parametrize(("declare", "code", "node"), MISTAKES, ids=[one[0].__name__ for one in MISTAKES])
def test_a_mistake_is_reported_with_its_code_step_and_line(
    declare: Callable[[App], None], code: str, node: str
) -> None:
    app = App("mistakes")
    with pytest.raises(TopologyError) as caught:
        declare(app)
        app.build()
    lines, first = inspect.getsourcelines(declare)
    (line,) = [first + number for number, text in enumerate(lines) if text.rstrip().endswith("# here")]
    assert (caught.value.code, caught.value.node) == (code, node)
    assert caught.value.location.endswith(f"test_validate.py:{line}")
    assert caught.value.hint
    assert str(caught.value).startswith(caught.value.location)


def test_an_app_that_declares_nothing_is_refused() -> None:
    with pytest.raises(TopologyError, match="empty-topology"):
        App("nothing").build()


@pytest.mark.parametrize("name", ["", "a b", "..", "__app", "app.g1", "x" * 201, "a/../b"])
def test_an_app_with_a_name_that_no_topic_can_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigError):
        App(name)


def test_a_failed_step_may_be_declared_again_under_its_name() -> None:
    app = App("mistakes")
    with pytest.raises(TopologyError):
        app.stream(IN).process("step", ANY)
    app.stream(IN).process("step", step)
    moved = app.stream(IN).map_records(same)
    with pytest.raises(TopologyError):
        moved.count("counts")
    moved.to(OUT)
    with pytest.raises(TopologyError):
        app.stream(IN, on_error="skip")
    app.stream(IN).count("counts").to(TOTALS)
    assert [node.label for node in app.build().nodes.values()] == [
        'source "in"',
        'process "step"',
        "map_records",
        'sink "out"',
        'aggregate "counts"',
        'table sink "totals"',
    ]


def test_one_builder_may_serve_two_steps() -> None:
    kept = stores.key_value("kept", int)
    app = App("shared")
    app.stream(IN).process("one", step, stores=[kept])
    app.stream(IN).process("two", step, stores=[kept])
    assert len(app.build().subtopologies()) == 1


def test_a_line_in_a_package_whose_name_begins_with_tidegate_is_the_users() -> None:
    """`tidegate_orders` beside `tidegate` is no part of it."""
    from pathlib import Path

    import tidegate

    folder = Path(tidegate.__file__).parent
    file = folder.with_name(folder.name + "_orders") / "orders.py"
    code = compile("\n\napp.stream(topic).map(function)", str(file), "exec")
    with pytest.raises(TopologyError) as caught:
        exec(code, {"app": App("lines"), "topic": IN, "function": ANY})  # noqa: S102 - a file of that name
    assert caught.value.location.endswith("orders.py:3")
