"""What a client holds, and how frames change it. Pure; the client in TypeScript has the same rules.

1 A line that is no frame of this id, or a patch for another version than the held one, is never applied: the
  connection is given up, and the next request names the version that is held.
2 The state after a frame must have the digest of the frame. If it has not, the version that is held stays as
  it is, and the next request names none: the server sends the state. Three times in a row is an error.
3 Frames are lines. What follows the last line break of a connection that was cut is no frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from tidegate.errors import ClientError
from tidegate.models.answer import Frame, Kind
from tidegate.models.canonical import Json, digest
from tidegate.models.patch import apply

MOST_MISMATCHES = 3
LONGEST_LINE = 64 << 20


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an id. Versions share what did not change between them: do not change a state."""

    token: str | None = None
    state: Any = None
    """None if the id does not exist."""
    gone: bool = False
    kind: Kind | None = None
    """The frame that led to it; None if it was stored, or nothing was received yet."""


class Unusable(Exception):  # noqa: N818 - a reason to connect again, and no error of the caller
    """The connection must be given up; another one may do."""


class _Failure(msgspec.Struct, frozen=True):
    """Why a server ends a stream."""

    code: str
    message: str = ""
    hint: str = ""
    retryable: bool = False


class _Line(Frame, frozen=True, kw_only=True):
    """A frame, or the last line of a stream that failed."""

    id: str = ""
    kind: Kind | None = None  # type: ignore[assignment]
    token: str = ""
    error: _Failure | None = None


_line = msgspec.json.Decoder(_Line).decode


class Held:
    """The version that a client holds."""

    def __init__(self, id: str, version: Version) -> None:
        self.version = version
        self.is_current = False
        """Whether a frame was received: before, the version may be an old one that was stored."""
        self._id = id
        self._mismatches = 0

    @property
    def asked(self) -> str | None:
        """The token for the next request; None requests the state."""
        return None if self._mismatches else self.version.token

    def receive(self, line: bytes) -> bool:
        """Take one line. Returns whether there is a new version. Raises Unusable or ClientError."""
        frame = self._frame(line)
        found = self._after(frame)
        if found is None:
            self.mismatch()
            return False
        self._mismatches = 0
        changed = found.token != self.version.token or found.kind == "state"
        if changed or not self.is_current:
            self.version = found
        self.is_current = True
        return changed

    def mismatch(self) -> None:
        """The server does not have what is held: request the state. Raises Unusable, the third time in a row
        ClientError `digest-mismatch`."""
        self._mismatches += 1
        if self._mismatches < MOST_MISMATCHES:
            raise Unusable("the digest differs")
        raise ClientError(
            "digest-mismatch",
            f"the state of {self._id!r} differed from its digest {self._mismatches} times in a row",
            "compare the versions of client and server, and look for a proxy that changes responses",
        )

    def _frame(self, line: bytes) -> _Line:
        try:
            frame = _line(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unusable(f"a line that is no frame: {error}") from None
        if (failure := frame.error) is not None:
            if failure.retryable:
                raise Unusable(failure.message)
            raise ClientError(failure.code, failure.message, failure.hint)
        if frame.id != self._id or not frame.token:
            raise Unusable("a frame of something else")
        if frame.kind == "patch" and frame.came_from != self.asked:
            raise Unusable("a patch for another version")
        return frame

    def _after(self, frame: _Line) -> Version | None:
        """The version after a frame; None if its digest is another one."""
        if frame.kind == "gone":
            return Version(frame.token, gone=True, kind=frame.kind)
        try:
            state = _state(frame) if frame.kind == "state" else apply(self.version.state, _patch(frame))
            is_equal = digest(state) == frame.digest
        except (ValueError, TypeError, AttributeError, KeyError):
            return None
        return Version(frame.token, state, kind=frame.kind) if is_equal else None


def _state(frame: Frame) -> Json:
    if frame.state is msgspec.UNSET:
        raise ValueError("there is no state")
    found: Json = frame.state
    return found


def _patch(frame: Frame) -> dict[str, Any]:
    if isinstance(frame.patch, msgspec.UnsetType):
        raise ValueError("there is no patch")  # noqa: TRY004 - of the frame, not of the program
    return frame.patch


class Lines:
    """Cuts bytes into lines. Empty ones, which are heartbeats, are left out."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that are complete now."""
        head, separator, rest = data.rpartition(b"\n")
        if not separator:
            self._rest += rest
            if len(self._rest) > LONGEST_LINE:
                raise Unusable(f"a line of more than {LONGEST_LINE:,} bytes")
            return []
        found = bytes(self._rest + head).split(b"\n")
        self._rest = bytearray(rest)
        return [line for line in found if line.strip()]
