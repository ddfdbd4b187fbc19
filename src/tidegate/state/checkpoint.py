"""The checkpoint file: the offsets of stores that cannot commit them together with their data.

It is replaced atomically: a temporary file is written, synced and renamed over the old one, then the folder
is synced. A crash leaves the old file or the new one. A file that is damaged in any byte is refused: a wrong
offset is worse than none.

    tidegate-checkpoint 1
    2
    {"store":"totals","offset":100,"position":{...}}
    {"store":"seen","offset":null,"position":null}
    crc32 0c2f55a1
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from tidegate.errors import StateError
from tidegate.log.faultpoints import reach
from tidegate.log.positions import Position

CHECKPOINT = "checkpoint"
_HEAD = b"tidegate-checkpoint 1"


class Checkpoint(msgspec.Struct, frozen=True):
    """The changelog offset of one store. `offset` None: the store exists, but nothing was written to it
    yet."""

    offset: int | None
    position: Position | None = None
    topic: str = ""
    current_at: int = 0


class _Line(Checkpoint, frozen=True, kw_only=True):
    store: str


_line = msgspec.json.Decoder(_Line)


class CheckpointFile:
    """The checkpoints of one task's stores in one file. What was passed to `fsync` survives a power cut."""

    def __init__(self, path: Path, fsync: Callable[[int], None] = os.fsync) -> None:
        self._path = path
        self._fsync = fsync

    def read(self) -> dict[str, Checkpoint]:
        """Return the checkpoints that were written last; empty if there is no file."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StateError(
                "state-io", f"the checkpoint cannot be read ({error})", "check the disk"
            ) from error
        return _parse(data)

    def write(self, checkpoints: Mapping[str, Checkpoint]) -> None:
        """Replace the file."""
        if any(entry.offset is not None and entry.offset < 0 for entry in checkpoints.values()):
            raise StateError(
                "bad-checkpoint", "an offset below 0 cannot be written", "this is a bug: report it"
            )
        body = _format(checkpoints)
        draft = self._path.with_name(self._path.name + ".tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("wb") as file:
                file.write(body)
                file.flush()
                reach("checkpoint.sync")
                self._fsync(file.fileno())
            reach("checkpoint.rename")
            draft.replace(self._path)
            reach("checkpoint.folder")
            self._sync_folder()
        except OSError as error:
            code = "disk-full" if error.errno == 28 else "state-io"
            hint = (
                "free some space" if code == "disk-full" else "check the disk and the folder's owner and mode"
            )
            raise StateError(
                code, f"the checkpoint cannot be written ({error})", hint, retryable=True
            ) from error

    def delete(self) -> None:
        """Delete the file, durably: every store is unknown from then on. Raises OSError."""
        try:
            self._path.unlink()
        except FileNotFoundError:
            return
        self._sync_folder()

    def _sync_folder(self) -> None:
        handle = os.open(self._path.parent, os.O_RDONLY)
        try:
            self._fsync(handle)
        finally:
            os.close(handle)


def _format(checkpoints: Mapping[str, Checkpoint]) -> bytes:
    lines = [_HEAD, b"%d" % len(checkpoints)]
    for store, entry in sorted(checkpoints.items()):
        line = _Line(entry.offset, entry.position, entry.topic, entry.current_at, store=store)
        lines.append(msgspec.json.encode(line))
    body = b"\n".join(lines) + b"\n"
    return body + b"crc32 %08x\n" % zlib.crc32(body)


def _parse(data: bytes) -> dict[str, Checkpoint]:
    head, _, _ = data.partition(b"\n")
    if head.startswith(b"tidegate-checkpoint ") and head != _HEAD:
        raise StateError(
            "unknown-format",
            f"the checkpoint has version {head[20:40].decode(errors='replace')!r}; this tidegate reads 1",
            "use the tidegate that wrote it, or delete the task's folder: it is restored from the log",
        )
    body, crc = data[:-15], data[-15:]
    lines = body.split(b"\n")
    if head != _HEAD or crc != b"crc32 %08x\n" % zlib.crc32(body) or len(lines) < 3:
        raise _bad("its checksum does not match")
    try:
        count = int(lines[1])
        entries = [_line.decode(line) for line in lines[2:-1]]
    except (ValueError, msgspec.DecodeError) as error:
        raise _bad(str(error)) from error
    if count != len(entries) or len({entry.store for entry in entries}) != count:
        raise _bad(f"its count is {count} stores, but it holds {len(entries)}")
    if any(entry.offset is not None and entry.offset < 0 for entry in entries):
        raise _bad("it holds an offset below 0")
    return {
        entry.store: Checkpoint(entry.offset, entry.position, entry.topic, entry.current_at)
        for entry in entries
    }


def _bad(why: str) -> StateError:
    return StateError(
        "bad-checkpoint",
        f"the checkpoint cannot be read: {why}",
        "delete the task's folder: it is restored from the log",
    )
