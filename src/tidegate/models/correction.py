"""The correction of a live row after an upgrade: one more version, whose state is the recalculated one.

    live row          recalculated row      correction
    gone, or none     gone, or none         none
    exists            equal state           none: the row stays as it is, and its token stays the newest
    exists            another state         the next sequence of the live row, with one patch
    exists            gone, or none         a removal, which is the next sequence of the live row
    gone, or none     exists                the first version of the next life

A recalculation counts versions from 1 again. Its sequences, hashes and stamps name versions that no client
ever held, so of the recalculated row only the state is used, and all else follows from the live row: every
token that clients hold stays good.

The hash of the new version is chained from the live hash and the recalculated state. A `hash=` of the user
cannot be called, because a correction is published without the user's code, by any start. The hash of the
recalculation would not identify the version: unless the diffs changed, it is the hash of the live row, whose
state is another one. The function receives the chained hash with the next diff, as it does after a request
that creates an id without a diff.

The outcomes of requests are those of the live row. The recalculation read the same requests, so it has no
others; but what a client was answered does not change, and the tokens in it are live ones.
"""

from __future__ import annotations

from tidegate.models.row import ModelRow
from tidegate.models.step import Step, chained, changed, created, removed

UPGRADE = b"upgrade:"
"""Starts what is hashed. No diff has the same bytes, since this is not JSON."""


def corrected(live: ModelRow, recalculated: ModelRow) -> Step | None:
    """Return the version that follows the live row; None if the state is the same.

    `NEVER` stands for a missing row. Equal arguments have equal results, and a corrected row needs no further
    correction: so an interrupted publication may be repeated.
    """
    if live.gone and recalculated.gone:
        return None
    if recalculated.gone:
        return removed(live, chained(live.hash, UPGRADE))
    data, document = recalculated.state, recalculated.document()
    hashed = chained("" if live.gone else live.hash, UPGRADE + data)
    if live.gone:
        return created(live, hashed, data, document)
    if live.state == data:
        return None
    step = changed(live, hashed, data, document)
    return None if step.patch is None else step
