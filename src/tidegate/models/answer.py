"""The answer to a client: one frame that leads from the version that it holds to the row's.

no token, another life, below the floor,      state
a token of another id, or another hash
a version of this life                        patch; empty if it is the newest
the id does not exist (any more)              gone
a version that this row does not know yet     None: read on, up to the end of the log, and ask again
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tidegate.models.canonical import digest
from tidegate.models.patch import Patch
from tidegate.models.row import ModelRow
from tidegate.models.stamps import since
from tidegate.models.token import Token, parse_token

Kind = Literal["state", "patch", "gone"]


class Frame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"came_from": "from"}):
    """One element of a stream."""

    id: str
    kind: Kind
    came_from: str | None = None
    """The token from which the patch leads; none in a frame that replaces everything."""
    token: str
    digest: str | None = None
    """Of the state after it, by RFC 8785 and SHA-256."""
    state: Any = msgspec.UNSET
    patch: Patch | msgspec.UnsetType = msgspec.UNSET


def answer(id: str, row: ModelRow, token: str | None, *, at_end: bool = False) -> Frame | None:
    """Return the frame for a client that holds this token. `at_end`: the row is the newest of the log, so a
    token beyond it is of a log that was truncated. Raises ConfigError `bad-token`."""
    held = None if token is None else parse_token(id, token)
    if held is not None and _beyond(held, row) and not at_end:
        return None
    if row.gone:
        return Frame(id=id, kind="gone", token=row.token(id))
    document = row.document()
    now: dict[str, Any] = {"id": id, "token": row.token(id), "digest": digest(document)}
    if held is None or not _known(held, row):
        return Frame(kind="state", state=document, **now)
    patch = since(document, row.decoded_stamps(), held.sequence)
    return Frame(kind="patch", came_from=token, patch=patch, **now)


def _beyond(held: Token, row: ModelRow) -> bool:
    return (held.life, held.sequence) > (row.life, row.sequence)


def _known(held: Token, row: ModelRow) -> bool:
    """Whether the row has a patch from this version."""
    if held.life != row.life or not row.floor <= held.sequence <= row.sequence:
        return False
    return held.sequence < row.sequence or held.hash == row.hash
