"""The state of a model, as the user's type and as the JSON value that is kept and sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tidegate.errors import SerdeError, UserCodeError
from tidegate.models.canonical import LARGEST_INTEGER, Json, canonical
from tidegate.models.formats import encode_json

DEEPEST = 100
"""Levels of lists and objects in a state."""


class Documents:
    """Converts the states of one model."""

    def __init__(self, state_type: Any, max_state: int) -> None:
        self._typed: Callable[[bytes], Any] = msgspec.json.Decoder(state_type).decode
        self._max_state = max_state

    def state(self, data: bytes) -> Any:
        """Return the state as the user's type: an object that nobody else holds."""
        try:
            return self._typed(data)
        except msgspec.ValidationError as error:
            message = f"a kept state is not of the model's type: {error}"
            raise SerdeError("bad-state", message, "reset the app, or undo the change") from error

    def document(self, state: Any) -> tuple[Json, bytes]:
        """Return the state as a JSON value and as bytes. Raises SerdeError `bad-state` or
        `state-too-large`."""
        try:
            found: Json = msgspec.to_builtins(state, str_keys=True)
            data = encode_json(found)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise _bad(str(error) or "it is nested too deeply") from error
        _check(found)
        if len(data) > self._max_state:
            raise _too_large(len(data), self._max_state)
        return found, data


def _check(document: Json) -> None:
    """Raise for what JSON or JavaScript cannot hold. One level after the other: most states have few."""
    level: list[Any] = [document]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for value in level:
            kind = type(value)
            if kind is dict:
                below.extend(value.values())
            elif kind is list:
                below.extend(value)
            elif (kind is int and not -LARGEST_INTEGER <= value <= LARGEST_INTEGER) or (
                kind is float and (value != value or value in (float("inf"), float("-inf")))  # noqa: PLR0124
            ):
                _explain(document)
        if not below:
            return
        level = below
    raise _bad(f"it has more than {DEEPEST} levels")


def _explain(document: Json) -> None:
    try:
        canonical(document)
    except ValueError as error:
        raise _bad(str(error)) from error


def _too_large(size: int, limit: int) -> UserCodeError:
    """Becomes a dead letter, whatever the policy is: the model goes on without it."""
    message = f"the state would have {size:,} bytes, and max_state is {limit:,}"
    found = UserCodeError("state-too-large", message, "keep less in it, or raise max_state")
    found.tidegate_policy = "dead-letter"  # type: ignore[attr-defined]
    return found


def _bad(why: str) -> SerdeError:
    hint = "use text, numbers within 2^53, lists and objects"
    return SerdeError("bad-state", f"the state cannot be written as JSON: {why}", hint)
