"""Rows that a later record of the same batch replaces: what cannot be stored fails as record by record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidegate import App, TableTopic, Topic
from tidegate.testing.driver import Driver

NUMBERS = Topic("numbers", int)
TEXTS = TableTopic("texts", str)
LARGE = 2_000_000
"""More than a changelog takes in one record."""


def number(value: int) -> int:
    return value


def long_text(_: str, size: int) -> str:
    return "x" * size


def long_list(_: list[str], size: int) -> list[str]:
    return ["x" * size]


def long_bytes(_: bytes, size: int) -> bytes:
    return b"x" * size


def surrogate(_: str, code: int) -> str:
    return chr(code)


def code_of(text: str) -> str:
    return str([ord(one) for one in text])


def length(found: Any) -> str:
    return str(len(found[0]) if isinstance(found, list) else len(found))


SHAPES: dict[str, tuple[Callable[[Any], Any], list[int], list[str]]] = {
    "a sum that leaves 64 bits and comes back": (
        lambda stream: stream.sum("made", number).map(str),
        [2**62, 2**62, -(2**62)],
        [str(2**62), "0"],
    ),
    "a sum that leaves them below": (
        lambda stream: stream.sum("made", number).map(str),
        [-(2**63), -1, 1],
        [str(-(2**63)), str(1 - 2**63)],
    ),
    "a text that is too long for a while": (
        lambda stream: stream.aggregate("made", str, long_text).map(length),
        [10, LARGE, 5],
        ["10", "5"],
    ),
    "bytes that are too many for a while": (
        lambda stream: stream.aggregate("made", bytes, long_bytes).map(length),
        [10, LARGE, 5],
        ["10", "5"],
    ),
    "a list that is too long for a while": (
        lambda stream: stream.aggregate("made", list[str], long_list).map(length),
        [10, LARGE, 5],
        ["10", "5"],
    ),
    "a text without UTF-8 form for a while": (
        lambda stream: stream.aggregate("made", str, surrogate).map(code_of),
        [65, 0xD800, 66],
        ["[65]", "[66]"],
    ),
}


@pytest.mark.parametrize("batches", [True, False], ids=["whole batches", "record by record"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_between_that_cannot_be_stored_is_skipped(shape: str, batches: bool) -> None:
    declare, sent, expected = SHAPES[shape]
    app = App("between")
    declare(app.stream(NUMBERS)).to(TEXTS)
    with Driver(app, batches=batches, on_error="skip") as driver:
        driver.send(NUMBERS, "k", *sent)
        driver.run()
        assert driver.values(TEXTS) == expected
