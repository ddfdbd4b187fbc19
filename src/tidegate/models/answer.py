"""The answer to a client: one frame that leads from the version that it holds to the row's.

no token, another life, below the floor,      state
a token of another id, or another hash
a version of this life                        patch; empty if it is the newest
the id does not exist (any more)              gone
a version that this row does not know yet     None: read on, up to the end of the log, and ask again
"""

from __future__ import annotations

from threading import Lock
from typing import Any, Literal

import msgspec

from tidegate.models.canonical import Json, digest
from tidegate.models.patch import Patch
from tidegate.models.row import ModelRow
from tidegate.models.stamps import since
from tidegate.models.token import Token, parse_token

Kind = Literal["state", "patch", "gone"]


class Frame(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={"came_from": "from", "kind": "event"},
):
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
    version = Version(id, row)
    return None if version.is_behind(token) and not at_end else version.frame(token)


class Version:
    """One row that answers many clients: its state is decoded, and its digest computed, only once. May be
    used by several threads."""

    def __init__(self, id: str, row: ModelRow) -> None:
        self.id = id
        self.row = row
        self.token = row.token(id)
        self._lock = Lock()
        self._document: Json = None
        self._digest: str | None = None

    def is_behind(self, token: str | None) -> bool:
        """Whether the token names a version that comes after this one."""
        held = None if token is None else parse_token(self.id, token)
        return held is not None and _beyond(held, self.row)

    def frame(self, token: str | None) -> Frame:
        """The frame for a client that holds this token, if this is the newest version."""
        held = None if token is None else parse_token(self.id, token)
        if self.row.gone:
            return Frame(id=self.id, kind="gone", token=self.token)
        document, found = self._decoded()
        now: dict[str, Any] = {"id": self.id, "token": self.token, "digest": found}
        if held is None or not _known(held, self.row):
            return Frame(kind="state", state=document, **now)
        patch = since(document, self.row.decoded_stamps(), held.sequence)
        return Frame(kind="patch", came_from=token, patch=patch, **now)

    def _decoded(self) -> tuple[Json, str]:
        with self._lock:
            if self._digest is None:
                self._document = self.row.document()
                self._digest = digest(self._document)
            return self._document, self._digest


def _beyond(held: Token, row: ModelRow) -> bool:
    return (held.life, held.sequence) > (row.life, row.sequence)


def _known(held: Token, row: ModelRow) -> bool:
    """Whether the row has a patch from this version."""
    if held.life != row.life or not row.floor <= held.sequence <= row.sequence:
        return False
    return held.sequence < row.sequence or held.hash == row.hash
