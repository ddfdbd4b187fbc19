"""One version of an id after the other: the next row, the patch that leads to it, and the event of both."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from tidegate.models.canonical import Json
from tidegate.models.checks import check_value
from tidegate.models.document import bad_state
from tidegate.models.formats import ModelEvent
from tidegate.models.patch import SET, Patch
from tidegate.models.row import ModelRow, encode_stamps
from tidegate.models.stamps import Stamps, advance, limited

HASH_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Step:
    """The next row, and the patch that leads to it; None if the state did not change."""

    row: ModelRow
    patch: Patch | None = None


def created(row: ModelRow, hashed: str, data: bytes, document: Json) -> Step:
    """Return the first version of the next life. Raises SerdeError `bad-state`."""
    try:
        check_value(document)
    except ValueError as error:
        raise bad_state(str(error)) from error
    first = ModelRow(
        life=row.life + 1,
        sequence=1,
        hash=hashed,
        floor=1,
        gone=False,
        state=data,
        stamps=encode_stamps(1),
        outcomes=row.outcomes,
    )
    return Step(first, {SET: document})


def changed(row: ModelRow, hashed: str, data: bytes, document: Json) -> Step:
    """Return the version after that of a row which exists. Raises SerdeError `bad-state`."""
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
    following = msgspec.structs.replace(
        row, sequence=sequence, hash=hashed, floor=floor, state=data, stamps=encoded
    )
    return Step(following, patch)


def removed(row: ModelRow, hashed: str) -> Step:
    """Return the last version of a life: a removal."""
    sequence = row.sequence + 1
    gone = ModelRow(life=row.life, sequence=sequence, hash=hashed, floor=sequence, outcomes=row.outcomes)
    return Step(gone, {})


def chained(before: str, diff: bytes) -> str:
    """The hash of a version: of the hash before and the diff, each with its length."""
    head = before.encode()
    content = b"%d:%b%d:%b" % (len(head), head, len(diff), diff)
    return hashlib.sha256(content).hexdigest()[:HASH_DIGITS]


def model_event(id: str, before: ModelRow, row: ModelRow, patch: Patch, at: int, origin: str) -> ModelEvent:
    """Return the event of a new version: `row` follows `before`, and the patch leads to it."""
    is_created = row.life != before.life
    return ModelEvent(
        id,
        row.life,
        row.sequence,
        "" if is_created else before.hash,
        row.hash,
        "created" if is_created else "gone" if row.gone else "changed",
        patch,
        at,
        origin,
    )
