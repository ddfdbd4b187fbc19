"""docs/reference/processors.md and timers.md have every method that a step has and may call."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from tests.docs.reference import named_first, page, parameters, public, rows, sections

from tidegate import Context, Processor, Record, TimedProcessor, stores
from tidegate.state.builder import TimeKind

PROCESSORS, TIMERS = sections(page("processors"), 2), sections(page("timers"), 2)


def test_every_member_of_the_context_is_in_the_table_and_no_other() -> None:
    chapter = PROCESSORS["The context"]
    assert named_first(chapter) == public(Context)
    for name in ("store", "forward", "schedule"):
        [row] = [row for row in rows(chapter) if row[0].startswith(f"`ctx.{name}(")]
        shown = re.findall(r"(\w+)(?:=[^,)]*)?[,)]", row[0].partition("(")[2])
        assert shown == parameters(getattr(Context, name))


def test_every_method_of_a_processor_is_in_the_table_and_no_other() -> None:
    assert named_first(PROCESSORS["A class"]) == public(Processor) | public(TimedProcessor)


def test_every_method_of_timers_is_in_the_table_and_no_other() -> None:
    inside = {"next_due", "take", "soonest"}
    found = public(stores.KeyTimers, inside)
    assert named_first(TIMERS["Timers of keys"]) - {"store"} == found


@pytest.mark.parametrize("clock", get_args(TimeKind))
def test_both_clocks_are_on_the_page(clock: str) -> None:
    assert f'"{clock}"' in page("timers")


def test_every_method_and_field_of_a_record_is_on_the_page_of_operators() -> None:
    record: type[Any] = Record
    reported = sections(page("operators"), 3)["Stream.map_records"]
    wanted = {*record.__struct_fields__, "with_key", "with_value", "header"}
    assert {name for name in wanted if f"`{name}" not in reported} == set()
