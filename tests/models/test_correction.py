"""A live row after an upgrade: one more version where the state differs, and every token stays good."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.models.histories import ID, REMOVED, check_answer, exact, fold, versions
from tests.models.test_stamps import documents, edited
from tests.repetitions import repeated

from tidegate.models.answer import answer
from tidegate.models.correction import corrected
from tidegate.models.document import Documents
from tidegate.models.fold import Fold
from tidegate.models.formats import ModelRequest, encode_json
from tidegate.models.patch import apply
from tidegate.models.row import NEVER, ModelRow
from tidegate.models.stamps import FEWEST, sequences
from tidegate.models.step import model_event
from tidegate.models.token import HASH

Held = dict[str, Any]
"""The state that a client holds, by token."""


def folded(states: list[Any], row: ModelRow = NEVER) -> tuple[ModelRow, Held]:
    """Return the row after these states, and every version on the way."""
    model, held = fold(), {row.token(ID): REMOVED if row.gone else row.document()}
    for state in states:
        row = (model.remove(row) if state is REMOVED else model.apply(row, {"state": state})).row
        held[row.token(ID)] = state
    return row, held


@st.composite
def pairs(draw: st.DrawFn) -> tuple[list[Any], list[Any]]:
    """The states of an id in the old and in the new version: with most in common, or nothing."""
    count = st.integers(0, 15)
    old = versions(Random(draw(st.integers(0, 10**6))), draw(count) + 1)[: draw(count)]
    kind = draw(st.sampled_from(["same", "edited", "other", "removed", "none"]))
    if kind == "none":
        return old, []
    if kind == "other":
        return old, versions(Random(draw(st.integers(0, 10**6))), draw(count) + 1)
    new = old[draw(st.integers(0, 2)) :]  # fewer versions: other sequences
    if kind == "removed":
        return old, [*new, REMOVED]
    if kind == "edited" and old and old[-1] is not REMOVED:
        last = draw(edited(old[-1]).filter(lambda one: one is not None))
        return old, [*new, last]
    return old, new


@pytest.mark.soak
@settings(max_examples=repeated(150, 4_000))
@given(pairs())
def test_from_every_live_version_one_frame_leads_to_the_recalculated_state(
    pair: tuple[list[Any], list[Any]],
) -> None:
    (live, held), (recalculated, _) = (folded(states) for states in pair)
    step = corrected(live, recalculated)
    document = recalculated.document()
    if step is None:
        assert exact(live.document()) == exact(document)
        assert live.gone == recalculated.gone
        return
    row = step.row
    assert (row.gone, exact(row.document())) == (recalculated.gone, exact(document))
    assert live.gone or (row.life, row.sequence) == (live.life, live.sequence + 1)
    assert not live.gone or (row.life, row.sequence) == (live.life + 1, 1)
    assert row.token(ID) not in held
    state = REMOVED if recalculated.gone else document
    for token, before in {**held, row.token(ID): state}.items():
        check_answer(row, token, before, state)
    event = model_event(ID, live, row, step.patch or {}, 1, "-")
    if event.kind == "changed":
        frame = answer(ID, row, live.token(ID))
        assert frame is not None
        assert exact(frame.patch) == exact(event.patch)


@pytest.mark.soak
@settings(max_examples=repeated(150, 4_000))
@given(pairs())
def test_a_corrected_row_needs_no_correction_and_is_the_same_each_time(
    pair: tuple[list[Any], list[Any]],
) -> None:
    live, recalculated = (folded(states)[0] for states in pair)
    step = corrected(live, recalculated)
    assert step == corrected(live, recalculated)
    assert corrected(live if step is None else step.row, recalculated) is None


@pytest.mark.soak
@settings(max_examples=repeated(40, 1_000))
@given(pairs(), st.lists(documents.filter(lambda one: one is not None), max_size=6))
def test_a_live_run_goes_on_from_a_corrected_row(pair: tuple[list[Any], list[Any]], later: list[Any]) -> None:
    (live, held), (recalculated, _) = (folded(states) for states in pair)
    step = corrected(live, recalculated)
    row, since = folded(later, live if step is None else step.row)
    state = later[-1] if later else REMOVED if row.gone else row.document()
    for token, before in {**held, **since}.items():
        check_answer(row, token, before, state)


def test_equal_states_keep_the_row_whatever_its_history_was() -> None:
    live, _ = folded([{"a": 1}, {"a": 2}, {"a": 1}])
    recalculated, _ = folded([{"a": 1}])
    assert live.hash != recalculated.hash
    assert corrected(live, recalculated) is None
    assert corrected(NEVER, NEVER) is None
    assert corrected(folded([{"a": 1}, REMOVED])[0], NEVER) is None


def test_values_of_other_types_differ() -> None:
    step = corrected(folded([{"a": 1}])[0], folded([{"a": 1.0}])[0])
    assert step is not None
    assert step.patch == {"=": {"a": 1.0}}


def test_a_client_with_an_old_token_gets_one_patch() -> None:
    live, held = folded([{"a": 1, "b": 1}, {"a": 2, "b": 1}])
    step = corrected(live, folded([{"a": 1, "b": 2}])[0])
    assert step is not None
    for token, before in held.items():
        frame = answer(ID, step.row, token)
        assert frame is not None
        if before is not REMOVED:
            assert frame.kind == "patch"
            assert apply(before, frame.patch) == {"a": 1, "b": 2}  # type: ignore[arg-type]


def test_an_id_that_comes_back_has_another_life_and_one_that_ends_keeps_its_own() -> None:
    gone, _ = folded([{"a": 1}, REMOVED])
    back = corrected(gone, folded([{"a": 1}])[0])
    assert back is not None
    assert (back.row.life, back.row.sequence, back.patch) == (2, 1, {"=": {"a": 1}})
    ended = corrected(back.row, NEVER)
    assert ended is not None
    assert (ended.row.life, ended.row.sequence, ended.row.gone) == (2, 2, True)
    kinds = [model_event(ID, *pair, {}, 1, "-").kind for pair in ((gone, back.row), (back.row, ended.row))]
    assert kinds == ["created", "gone"]


def test_the_hash_is_another_one_although_the_diffs_are_the_same() -> None:
    def counted(step: int) -> ModelRow:
        model = Fold(Documents(Any, 1 << 20), int, lambda state, _: state + step, None, dict)
        return model.apply(model.apply(NEVER, {}).row, {}).row

    live, recalculated = counted(1), counted(2)
    assert live.hash == recalculated.hash, "the hash of a version is that of its diffs"
    step = corrected(live, recalculated)
    assert step is not None
    assert step.row.hash != live.hash
    assert HASH.fullmatch(step.row.hash)
    other = corrected(live, counted(3))
    assert other is not None
    assert other.row.hash != step.row.hash


def test_requests_keep_their_outcomes_and_have_no_second_effect() -> None:
    model = Fold(Documents(Any, 1 << 20), dict, lambda state, diff: {**state, **diff}, None, dict)
    diff = msgspec.Raw(encode_json({"a": 1}))
    request = ModelRequest("create", "r1", "body", diff)
    live = model.decide(ID, NEVER, request).row
    other = Fold(Documents(Any, 1 << 20), dict, lambda state, diff: {**state, **diff, "v": 2}, None, dict)
    recalculated = other.decide(ID, NEVER, request).row
    for after in (recalculated, NEVER):
        step = corrected(live, after)
        assert step is not None
        assert step.row.outcomes == live.outcomes
        assert other.decide(ID, step.row, request).row is step.row
    refused = model.decide(ID, NEVER, ModelRequest("append", "r2", "body", diff)).row
    step = corrected(refused, recalculated)
    assert step is not None
    assert [outcome.code for outcome in step.row.outcomes] == ["no-such-id"]


def test_stamps_stay_within_their_limit() -> None:
    row, _ = folded([{"kept": 0}])
    for number in range(400):
        step = corrected(row, folded([{"kept": 0, f"k{number}": number}])[0])
        assert step is not None
        row = step.row
    assert len(list(sequences(row.decoded_stamps()))) <= FEWEST
    assert 1 < row.floor < row.sequence
