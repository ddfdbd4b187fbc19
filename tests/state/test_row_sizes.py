"""Rows that are written together are refused if one of them is too large for the changelog, and only then."""

from __future__ import annotations

import pytest

from tidegate.errors import StateError
from tidegate.state.cached import CachedStore
from tidegate.state.memory import MemoryStore


@pytest.fixture
def store() -> CachedStore:
    made = CachedStore(MemoryStore())
    made.largest = 10
    return made


def test_many_rows_that_fit_one_by_one_are_written(store: CachedStore) -> None:
    keys = [b"k%d" % number for number in range(9)]
    store.put_many(keys, [b"12345678", *[None] * 8], [1] * 9)
    assert store.get_many(keys) == [b"12345678", *[None] * 8]
    assert store.bytes == 26


def test_no_row_is_written_if_one_is_too_large(store: CachedStore) -> None:
    store.put(b"a", b"1", 1)
    with pytest.raises(StateError, match="a row has 11 bytes; the store's changelog takes at most 10"):
        store.put_many([b"a", b"bb"], [b"2", b"123456789"], [2, 2])
    assert store.get_many([b"a", b"bb"]) == [b"1", None]


def test_a_long_key_beside_a_long_row_of_another_key_fits(store: CachedStore) -> None:
    store.put_many([b"123456789", b"b"], [b"1", b"123456789"], [1, 1])
    assert store.get_many([b"b", b"c", b"123456789"]) == [b"123456789", None, b"1"]
