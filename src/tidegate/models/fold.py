"""The fold of a model: from one row and one diff, or request, to the next row and the event.

Pure: nothing here reads a clock, a store or a log. A record that fails leaves the row as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tidegate.errors import SerdeError, StateError, TidegateError, UserCodeError
from tidegate.models.document import Documents
from tidegate.models.formats import NO_DIFF, ModelRequest, encode_json
from tidegate.models.row import ModelRow, Outcome
from tidegate.models.step import Step, chained, changed, created, removed
from tidegate.models.token import HASH

DONE = {"create": "created", "append": "appended", "delete": "deleted"}
"""The outcomes of requests that changed the state."""
Reducer = Callable[[Any, Any], Any]
HashFunction = Callable[[Any, str, Any], str]


class Fold:
    """One model."""

    def __init__(
        self,
        documents: Documents,
        initial: Callable[[], Any],
        reducer: Reducer,
        hash_function: HashFunction | None,
        diff_type: Any,
    ) -> None:
        self._documents = documents
        self._initial = initial
        self._reducer = reducer
        self._hash = hash_function
        self._diff = msgspec.json.Decoder(diff_type).decode

    def apply(self, row: ModelRow, diff: Any) -> Step:
        """Apply a diff: it creates an id that does not exist. A reducer that returns None removes the id."""
        state = self._initial() if row.gone else self._documents.state(row.state)
        hashed = self._next_hash(state, "" if row.gone else row.hash, diff)
        new = self._reducer(state, diff)
        if new is None:
            return Step(row) if row.gone else removed(row, hashed)
        document, data = self._documents.document(new)
        return (created if row.gone else changed)(row, hashed, data, document)

    def remove(self, row: ModelRow) -> Step:
        """Remove an id; nothing changes if it does not exist."""
        return Step(row) if row.gone else removed(row, chained(row.hash, b""))

    def decide(self, id: str, row: ModelRow, request: ModelRequest, *, accepted: bool | None = None) -> Step:
        """Decide on a request. What it cannot do is an outcome, never an error. In a replay `accepted` is
        whether it found the version that it expects: its token is one of another history."""
        if row.outcome(request.request) is not None:
            return Step(row)
        try:
            self._check(id, row, request, accepted)
            step = self._requested(row, request)
        except TidegateError as error:
            if policy_of(error) == "stop":
                raise
            return _refused(id, row, request, error)
        except Exception as error:  # noqa: BLE001 - what a user's function may raise
            failed = StateError("reducer-failed", f"the reducer raised {type(error).__name__}")
            return _refused(id, row, request, failed)
        code = DONE[request.kind] if step.patch is not None else "unchanged"
        outcome = Outcome(request.request, request.body, code, "", step.row.token(id))
        return Step(step.row.with_outcome(outcome), step.patch)

    def _check(self, id: str, row: ModelRow, request: ModelRequest, accepted: bool | None) -> None:
        met = request.expect == row.token(id) if accepted is None else accepted
        if request.expect is not None and not met:
            raise StateError("other-version", "the id has another version than expected")
        if request.kind == "create" and not row.gone:
            raise StateError("id-exists", "the id exists already")
        if request.kind != "create" and row.gone:
            raise StateError("no-such-id", "the id does not exist")

    def _requested(self, row: ModelRow, request: ModelRequest) -> Step:
        if request.kind == "delete":
            return self.remove(row)
        if request.diff != NO_DIFF:
            try:
                diff = self._diff(request.diff)
            except msgspec.DecodeError as error:
                raise SerdeError("bad-diff", str(error)) from error
            return self.apply(row, diff)
        if request.kind == "append":
            raise SerdeError("bad-diff", "there is no diff")
        document, data = self._documents.document(self._initial())
        return created(row, chained("", b""), data, document)

    def _next_hash(self, state: Any, before: str, diff: Any) -> str:
        if self._hash is None:
            try:
                return chained(before, encode_json(diff))
            except (TypeError, ValueError, OverflowError) as error:
                raise SerdeError(
                    "bad-diff", f"a diff cannot be written as JSON: {error}", "pass hash= to the model"
                ) from error
        found: object = self._hash(state, before, diff)
        if not isinstance(found, str) or not HASH.fullmatch(found):
            raise UserCodeError(
                "bad-hash", f"hash= returned {found!r}", "return up to 128 letters, digits, and . _ ~ -"
            )
        return found


def policy_of(error: TidegateError) -> str | None:
    """The policy that an error brings along, stronger than those of sources."""
    return getattr(error, "tidegate_policy", None)


def _refused(id: str, row: ModelRow, request: ModelRequest, error: TidegateError) -> Step:
    outcome = Outcome(request.request, request.body, error.code, error.message, row.token(id))
    return Step(row.with_outcome(outcome))
