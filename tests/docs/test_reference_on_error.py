"""docs/reference/on-error.md has every policy, every header of a dead letter, and codes that exist."""

from __future__ import annotations

from typing import get_args

from tests.docs.reference import named_first, names, page, rows, sections

from tidegate.runtime.output import on_error
from tidegate.topology.node import OnError

PAGE = page("on-error")
CHAPTERS = sections(PAGE, 2)


def test_every_policy_is_in_the_first_table_and_no_other() -> None:
    first = PAGE.partition("\n## ")[0]
    assert {names(row[0])[0].strip('"') for row in rows(first)} == set(get_args(OnError))


def test_every_header_of_a_dead_letter_is_in_the_table_and_no_other() -> None:
    headers = {on_error.CODE, on_error.MESSAGE, on_error.POSITION, on_error.CODE_LOCATION}
    headers.add(on_error.INTERNAL_POSITION)
    found = {name for row in rows(CHAPTERS["What a dead letter holds"]) for name in names(row[0])}
    assert found == headers


def test_the_codes_that_meet_the_policy_are_errors_of_the_reference() -> None:
    listed = {name for row in rows(CHAPTERS["What meets the policy"]) for name in names(row[1])}
    assert listed
    assert listed - named_first(page("errors")) == set()
