"""The fold of a model: from one row and one diff, or request, to the next row and the event.

Pure: nothing here reads a clock, a store or a log. A record that fails leaves the row as it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from tidegate.errors import SerdeError, StateError, TidegateError, UserCodeError
from tidegate.models.checks import check_value
from tidegate.models.document import Documents, bad_state
from tidegate.models.formats import NO_DIFF, ModelRequest, encode_json
from tidegate.models.patch import SET, Patch
from tidegate.models.row import ModelRow, Outcome, encode_stamps
from tidegate.models.stamps import Stamps, advance, limited
from tidegate.models.token import HASH

HASH_DIGITS = 32
DONE = {"create": "created", "append": "appended", "delete": "deleted"}
"""The outcomes of requests that changed the state."""
Reducer = Callable[[Any, Any], Any]
HashFunction = Callable[[Any, str, Any], str]


@dataclass(frozen=True, slots=True)
class Step:
    """The next row, and the patch that leads to it; None if the state did not change."""

    row: ModelRow
    patch: Patch | None = None


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
            return Step(row) if row.gone else _removed(row, hashed)
        document, data = self._documents.document(new)
        if row.gone:
            return _created(row, hashed, data, document)
        sequence = row.sequence + 1
        before: Stamps = row.decoded_stamps()
        try:
            stamps, patch = advance(row.document(), document, before, sequence)
        except ValueError as error:
            raise bad_state(str(error)) from error
        if stamps is before:
            return Step(row)
        encoded, floor = encode_stamps(stamps), row.floor
        if len(encoded) > len(data):
            stamps, floor = limited(stamps, floor, 0)
            encoded = encode_stamps(stamps)
        changed = msgspec.structs.replace(
            row, sequence=sequence, hash=hashed, floor=floor, state=data, stamps=encoded
        )
        return Step(changed, patch)

    def remove(self, row: ModelRow) -> Step:
        """Remove an id; nothing changes if it does not exist."""
        return Step(row) if row.gone else _removed(row, chained(row.hash, b""))

    def decide(self, id: str, row: ModelRow, request: ModelRequest) -> Step:
        """Decide on a request. What it cannot do is an outcome, never an error."""
        if row.outcome(request.request) is not None:
            return Step(row)
        try:
            self._check(id, row, request)
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

    def _check(self, id: str, row: ModelRow, request: ModelRequest) -> None:
        if request.expect is not None and request.expect != row.token(id):
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
        return _created(row, chained("", b""), data, document)

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


def _created(row: ModelRow, hashed: str, data: bytes, document: Any) -> Step:
    try:
        check_value(document)
    except ValueError as error:
        raise bad_state(str(error)) from error
    created = ModelRow(
        life=row.life + 1,
        sequence=1,
        hash=hashed,
        floor=1,
        gone=False,
        state=data,
        stamps=encode_stamps(1),
        outcomes=row.outcomes,
    )
    return Step(created, {SET: document})


def _removed(row: ModelRow, hashed: str) -> Step:
    sequence = row.sequence + 1
    gone = ModelRow(life=row.life, sequence=sequence, hash=hashed, floor=sequence, outcomes=row.outcomes)
    return Step(gone, {})


def chained(before: str, diff: bytes) -> str:
    """The hash of a version: of the hash before and the diff, each with its length."""
    head = before.encode()
    content = b"%d:%b%d:%b" % (len(head), head, len(diff), diff)
    return hashlib.sha256(content).hexdigest()[:HASH_DIGITS]
