"""The error tree."""

from __future__ import annotations

import pickle

import pytest

from tidegate.errors import (
    ConfigError,
    FencedError,
    LogError,
    SerdeError,
    TidegateError,
    TopologyError,
    UserCodeError,
)

ERRORS = [
    TidegateError("a", "b", "c", retryable=True),
    TopologyError("missing-serde", "no type", "annotate", node='aggregate "totals"', location="orders.py:28"),
    SerdeError("undecodable", "bytes", "h", position=("orders", 1, 2)),
    UserCodeError("user-code", "boom", "mend it", position=("orders", 1, 2), generation=3),
    FencedError("w", 1, 2),
    ConfigError("x", "y"),
    LogError("x", "y", "z", retryable=True),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_crosses_process_borders_whole(error: TidegateError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)


def test_an_error_reads_as_place_code_message_and_what_to_do() -> None:
    assert str(ERRORS[1]) == 'orders.py:28  aggregate "totals"  [missing-serde] no type  Do: annotate'
    assert ERRORS[0].as_dict() == {"code": "a", "message": "b", "hint": "c", "retryable": True}


def test_a_serde_error_has_the_position_of_the_record() -> None:
    placed = SerdeError("undecodable", "bad bytes").at("orders", 1, 7)
    assert (placed.position, "orders/1 offset 7" in str(placed)) == (("orders", 1, 7), True)
