"""Tokens and answers: each way in which a token may not fit."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.errors import ConfigError
from tidegate.models.answer import Frame, answer
from tidegate.models.canonical import digest
from tidegate.models.document import Documents
from tidegate.models.fold import Fold
from tidegate.models.patch import apply
from tidegate.models.row import NEVER, ModelRow
from tidegate.models.token import parse_token


def merged(state: dict[str, Any], diff: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**state, **diff}.items() if value is not None}


FOLD = Fold(Documents(dict, 1 << 20), dict, merged, None, dict)


def rows(*diffs: dict[str, Any], row: ModelRow = NEVER) -> list[ModelRow]:
    found = []
    for diff in diffs:
        row = FOLD.apply(row, diff).row
        found.append(row)
    return found


def answered(row: ModelRow, token: str | None, id: str = "w") -> Frame:
    found = answer(id, row, token, at_end=True)
    assert found is not None
    return found


def test_without_a_token_the_answer_is_the_state() -> None:
    [row] = rows({"a": 1})
    frame = answered(row, None)
    assert (frame.kind, frame.state, frame.came_from) == ("state", {"a": 1}, None)
    assert frame.digest == digest({"a": 1})


def test_a_token_of_this_life_gets_a_patch() -> None:
    first, second, third = rows({"a": 1, "b": 1}, {"c": 2}, {"a": None})
    for old in (first, second, third):
        frame = answered(third, old.token("w"))
        assert (frame.kind, frame.came_from, frame.token) == ("patch", old.token("w"), third.token("w"))
        assert apply(old.document(), frame.patch) == {"b": 1, "c": 2}  # type: ignore[arg-type]
    assert answered(third, third.token("w")).patch == {}


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "x",
        "1-2",
        "1-2-h",
        "01-2-h-00000000",
        "1-2-h-0000000g",
        "1-2-" + "h" * 300,
        "-1-2-h-00000000",
        "1-2-h\n-00000000",
    ],
)
def test_a_malformed_token_is_refused(bad: str) -> None:
    [row] = rows({"a": 1})
    with pytest.raises(ConfigError, match="bad-token"):
        answer("w", row, bad)


def test_a_token_of_another_id_gets_the_state() -> None:
    first, second = rows({"a": 1}, {"a": 2})
    assert parse_token("v", first.token("w")) is None
    assert answered(second, first.token("v")).kind == "state"


def test_a_token_of_a_previous_life_gets_the_state() -> None:
    [first] = rows({"a": 1})
    gone = FOLD.remove(first).row
    [again] = rows({"b": 1}, row=gone)
    assert answered(again, first.token("w")).kind == "state"
    assert answered(again, gone.token("w")).kind == "state"
    assert (gone.life, again.life, again.sequence) == (1, 2, 1)


def test_a_gone_id_is_gone_for_every_token() -> None:
    [first] = rows({"a": 1})
    gone = FOLD.remove(first).row
    for token in (None, first.token("w"), gone.token("w")):
        frame = answered(gone, token)
        assert (frame.kind, frame.token) == ("gone", gone.token("w"))
    assert answered(NEVER, None).kind == "gone"
    assert answered(NEVER, None).token == NEVER.token("w")


def test_another_hash_at_the_same_sequence_gets_the_state() -> None:
    [one], [other] = rows({"a": 1}), rows({"a": 2})
    assert answered(one, other.token("w")).kind == "state"


def test_a_token_beyond_the_row_is_undecided_until_the_log_was_read_to_its_end() -> None:
    first, second = rows({"a": 1}, {"a": 2})
    gone = FOLD.remove(second).row
    for row, token in ((first, second), (NEVER, first), (second, gone), (gone, rows({"c": 1}, row=gone)[0])):
        assert answer("w", row, token.token("w")) is None
    assert answered(first, second.token("w")).kind == "state"
    assert answered(NEVER, first.token("w")).kind == "gone"


def test_below_the_floor_the_answer_is_the_state() -> None:
    history = rows(*({f"k{n}": n, f"k{n - 5}": None} for n in range(1_000)))
    last = history[-1]
    assert 1 < last.floor < last.sequence
    versions = {row.sequence: row for row in history}
    below = answered(last, versions[last.floor - 1].token("w"))
    assert below.kind == "state"
    for sequence in range(last.floor, last.sequence + 1):
        frame = answered(last, versions[sequence].token("w"))
        assert frame.kind == "patch"
        assert apply(versions[sequence].document(), frame.patch) == last.document()  # type: ignore[arg-type]
