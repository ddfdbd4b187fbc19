"""The state of a model, as the user's type and as the JSON value that is kept and sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tidegate.errors import SerdeError, UserCodeError
from tidegate.models.canonical import Json
from tidegate.models.formats import encode_json


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
        """Return the state as a JSON value and as bytes. Raises SerdeError `bad-state` or `state-too-large`;
        whether JavaScript can hold its values is checked where they change."""
        try:
            found: Json = msgspec.to_builtins(state, str_keys=True)
            data = encode_json(found)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise bad_state(str(error) or "it is nested too deeply") from error
        if len(data) > self._max_state:
            raise _too_large(len(data), self._max_state)
        return found, data


def _too_large(size: int, limit: int) -> UserCodeError:
    """Becomes a dead letter, whatever the policy is: the model goes on without it."""
    message = f"the state would have {size:,} bytes, and max_state is {limit:,}"
    found = UserCodeError("state-too-large", message, "keep less in it, or raise max_state")
    found.tidegate_policy = "dead-letter"  # type: ignore[attr-defined]
    return found


def bad_state(why: str) -> SerdeError:
    hint = "use text, numbers within 2^53, lists and objects"
    return SerdeError("bad-state", f"the state cannot be written as JSON: {why}", hint)
