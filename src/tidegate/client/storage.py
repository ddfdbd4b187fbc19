"""Where a client keeps its version between two runs: state and token in one write, so that none is ever there
without the other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from tidegate.client.held import Version


class Storage(Protocol):
    """Keeps one piece of bytes."""

    def load(self) -> bytes | None:
        """Return what was saved last; None if there is nothing."""

    def save(self, data: bytes) -> None:
        """Replace it as a whole, or not at all."""


class FileStorage:
    """A file that is replaced by a rename: a crash leaves the old version or the new one."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def load(self) -> bytes | None:
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None

    def save(self, data: bytes) -> None:
        written = self._path.with_name(f".{self._path.name}.{os.getpid()}.new")
        written.write_bytes(data)
        written.replace(self._path)


class _Stored(msgspec.Struct, frozen=True):
    model: str
    id: str
    token: str
    state: Any
    gone: bool = False
    format: Literal[1] = 1


_decode = msgspec.json.Decoder(_Stored).decode


def stored(model: str, id: str, version: Version) -> bytes:
    """The bytes to save."""
    return msgspec.json.encode(_Stored(model, id, version.token or "", version.state, version.gone))


def restored(model: str, id: str, data: bytes | None) -> Version | None:
    """The version in stored bytes; None if they are damaged or of another id."""
    if data is None:
        return None
    try:
        found = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    is_ours = (found.model, found.id) == (model, id)
    return Version(found.token, found.state, found.gone) if is_ours else None
