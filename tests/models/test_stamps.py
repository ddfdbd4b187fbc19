"""One patch leads from any version at or above the floor to the newest: apply(S_h, since(h)) == S_t."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import repeated

from tidegate.models.patch import apply
from tidegate.models.stamps import Stamps, advance, sequences, since

leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.sampled_from([0.0, 1.0, 1.5, 2.0]), st.sampled_from("ab")
)
keys = st.sampled_from(["a", "b", "c", "=", "-"])
documents = st.recursive(
    leaves,
    lambda below: st.one_of(st.lists(below, max_size=5), st.dictionaries(keys, below, max_size=4)),
    max_leaves=12,
)


def exact(value: Any) -> bytes:
    """1, 1.0 and true differ."""
    return msgspec.json.encode(value, order="sorted")


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    """Versions that have most in common with the one before."""
    versions = [draw(documents)]
    for _ in range(draw(st.integers(1, 12))):
        versions.append(draw(edited(versions[-1])))
    return versions


def edited(value: Any) -> st.SearchStrategy[Any]:
    edits = [documents, st.just(value)]
    if isinstance(value, dict) and value:
        edits += [one_changed(value)] * 3 + [one_removed(value)]
        edits.append(st.tuples(keys, documents).map(lambda pair: {**value, pair[0]: pair[1]}))
    if isinstance(value, list) and value:
        edits += [one_changed(value)] * 3
        edits.append(st.integers(0, len(value)).map(lambda n: value[:n]))
        edits.append(st.lists(documents, max_size=3).map(lambda more: value + more))
        edits.append(
            st.tuples(st.integers(0, len(value)), st.lists(documents, max_size=3)).map(
                lambda p: value[: p[0]] + p[1]
            )
        )
    return st.one_of(edits)


def one_changed(value: Any) -> st.SearchStrategy[Any]:
    places = list(value) if isinstance(value, dict) else list(range(len(value)))

    def changed(place: Any) -> st.SearchStrategy[Any]:
        def put(new: Any) -> Any:
            if isinstance(value, dict):
                return {**value, place: new}
            return [*value[:place], new, *value[place + 1 :]]

        return edited(value[place]).map(put)

    return st.sampled_from(places).flatmap(changed)


def one_removed(value: dict[str, Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(list(value)).map(
        lambda gone: {key: one for key, one in value.items() if key != gone}
    )


@pytest.mark.soak
@settings(max_examples=repeated(60, 4_000))
@given(histories())
def test_one_patch_leads_from_every_version_to_the_newest(versions: list[Any]) -> None:
    stamps: Stamps = 1
    for at, (old, new) in enumerate(pairwise(versions), 2):
        stamps, patch = advance(old, new, stamps, at)
        assert exact(patch) == exact(since(new, stamps, at - 1)), "an event has the patch that clients get"
        for sequence, version in enumerate(versions[:at], 1):
            patched = apply(version, since(new, stamps, sequence))
            assert exact(patched) == exact(new), (sequence, at)


@pytest.mark.soak
@settings(max_examples=repeated(60, 4_000))
@given(histories(), st.data())
def test_versions_at_or_above_the_floor_are_known_after_stamps_were_dropped(
    versions: list[Any], data: st.DataObject
) -> None:
    stamps: Stamps = 1
    floor = 1
    for at, (old, new) in enumerate(pairwise(versions), 2):
        stamps, _ = advance(old, new, stamps, at)
        if data.draw(st.booleans()):
            stamps, floor = dropped(stamps, floor)
        assert floor <= at
        for sequence in range(floor, at + 1):
            patched = apply(versions[sequence - 1], since(new, stamps, sequence))
            assert exact(patched) == exact(new), (sequence, at, floor)


def dropped(stamps: Stamps, floor: int) -> tuple[Stamps, int]:
    """As if there were too many of them."""
    from tidegate.models import stamps as module

    found = sorted(sequences(stamps))
    risen = found[(len(found) - 1) // 2]
    return module._newer(stamps, risen), max(floor, risen)
