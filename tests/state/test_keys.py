"""The stored-key scheme: order kept, nothing lost, never too long for LMDB."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.state.keys import (
    LONG_FROM,
    after_prefix,
    escape,
    first_from,
    group_of,
    is_long,
    last_below,
    split_stored,
    stored_key,
)

NASTY = st.lists(
    st.sampled_from([b"\x00", b"\x01", b"\xff", b"a", b"\x00\xff", b"\x00\x00"]), max_size=8
).map(b"".join)
LONG = st.builds(lambda head, tail: head * 200 + tail, st.sampled_from([b"ab", b"a\x00", b"\x00\x00"]), NASTY)
KEYS = st.one_of(
    NASTY, st.binary(max_size=30), LONG, st.sampled_from([b"x" * 398, b"x" * 399, b"x" * 400, b"x" * 401])
)
SUFFIXES = st.one_of(st.just(b""), st.binary(min_size=16, max_size=16))


@given(KEYS, SUFFIXES)
def test_a_stored_key_fits_into_lmdb_and_is_never_empty(key: bytes, suffix: bytes) -> None:
    assert 1 <= len(stored_key(key, suffix)) <= 449


@given(KEYS, SUFFIXES)
def test_a_short_key_is_read_back_from_its_place_and_a_long_one_is_known_as_long(
    key: bytes, suffix: bytes
) -> None:
    expected = None if is_long(key) else (key, suffix)
    assert split_stored(stored_key(key, suffix)) == expected
    assert is_long(key) == (len(escape(key)) > LONG_FROM)


@given(KEYS, KEYS, st.binary(min_size=4, max_size=4), st.binary(min_size=4, max_size=4))
def test_places_are_ordered_as_key_then_suffix(left: bytes, right: bytes, a: bytes, b: bytes) -> None:
    same_group = (
        is_long(left)
        and is_long(right)
        and group_of(stored_key(left, b"")) == group_of(stored_key(right, b""))
    )
    if not same_group:
        assert ((left, a) < (right, b)) == (stored_key(left, a) < stored_key(right, b))


@given(KEYS, KEYS)
def test_bounds_leave_nothing_out(key: bytes, bound: bytes) -> None:
    place = stored_key(key, b"")
    if key >= bound:
        assert place >= first_from((bound, b""))
    if key < bound:
        assert place < last_below((bound, b""))


@given(KEYS, KEYS)
def test_a_key_never_walks_the_rows_of_a_longer_one(key: bytes, more: bytes) -> None:
    longer = key + b"\x00" + more
    if not is_long(longer):
        assert not stored_key(longer, b"").startswith(stored_key(key, b""))


@given(st.binary(max_size=5), st.binary(max_size=8))
def test_what_lies_behind_a_prefix_is_just_that(prefix: bytes, key: bytes) -> None:
    behind = after_prefix(prefix)
    inside = key >= prefix and (behind is None or key < behind)
    assert inside == key.startswith(prefix)
