"""A disk that fails on request, and that remembers what was written to it.

It stands between SQLite and the real file system as an APSW VFS. WAL works through it: APSW hands the
shared memory to the base VFS, and shared memory is no part of what a power cut leaves, since recovery
builds it again. Syncs are counted and recorded, and not passed on: the machine stays up, only the images
of it lose power.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, cast

import apsw

SECTOR = 512
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Op:
    """One thing that was done to a file: write, truncate, sync, delete, or a note of the test's own."""

    kind: str
    file: str
    offset: int = 0
    data: bytes = b""


@dataclass(slots=True)
class Fault:
    """Which call fails, how, whether the ones after it fail too, and whether half of it is done first."""

    call: str
    at: int
    error: Callable[[], apsw.Error]
    stays: bool
    short: bool = False
    fired: int = 0


class FaultyVfs(apsw.VFS):
    """Give its `name` to a log. One fault at a time."""

    def __init__(self) -> None:
        self.name = f"faulty-{next(_numbers)}"
        self.ops: list[Op] = []
        self.recording = False
        self._fault: Fault | None = None
        self._calls = 0
        super().__init__(self.name, "")

    def disk_full(self, at: int, *, stays: bool = True, short: bool = False) -> None:
        """The `at`-th write from now on finds no space."""
        self._set(Fault("write", at, lambda: apsw.FullError("no space, says the test"), stays, short))

    def sync_fails(self, at: int, *, stays: bool = False) -> None:
        """The `at`-th sync from now on fails, with what it should have made durable written."""
        self._set(Fault("sync", at, lambda: _disk_error(apsw.SQLITE_IOERR_FSYNC), stays))

    def read_only(self) -> None:
        """No write gets through any more, as on a disk that was remounted."""
        self._set(Fault("write", 1, lambda: apsw.ReadOnlyError("read-only, says the test"), stays=True))

    def read_fails(self, at: int) -> None:
        """The `at`-th read from now on fails, once."""
        self._set(Fault("read", at, lambda: _disk_error(apsw.SQLITE_IOERR_READ), stays=False))

    def heal(self) -> bool:
        """Everything works again. Whether the fault had struck."""
        fault, self._fault = self._fault, None
        return fault is not None and fault.fired > 0

    def note(self, text: str) -> None:
        """Put a mark between the operations."""
        self.record(Op("note", text))

    def record(self, op: Op) -> None:
        if self.recording:
            self.ops.append(op)

    def meet(self, call: str) -> Fault | None:
        """The fault, if this call is one that fails."""
        fault = self._fault
        if fault is None or fault.call != call:
            return None
        self._calls += 1
        if self._calls < fault.at or (fault.fired and not fault.stays):
            return None
        fault.fired += 1
        return fault

    def _set(self, fault: Fault) -> None:
        self._fault = fault
        self._calls = 0

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _FaultyFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        super().xDelete(filename, syncdir)
        self.record(Op("delete", Path(filename).name))

    def excepthook(self, etype: Any, evalue: Any, etraceback: Any) -> bool:  # noqa: ARG002
        """What SQLite does not pass on (a failed checkpoint in close) is not reported."""
        return True


class _FaultyFile(apsw.VFSFile):
    def __init__(self, vfs: FaultyVfs, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._vfs = vfs
        self._name = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "").name

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        if (fault := self._vfs.meet("read")) is not None:
            raise fault.error()
        return super().xRead(amount, offset)

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        fault = self._vfs.meet("write")
        written = bytes(data)[: len(data) // 2] if fault and fault.short else bytes(data)
        if fault is None or fault.short:
            super().xWrite(written, offset)
            self._vfs.record(Op("write", self._name, offset, written))
        if fault is not None:
            raise fault.error()

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._vfs.record(Op("truncate", self._name, newsize))

    def xSync(self, flags: int) -> None:  # noqa: ARG002, N802
        if (fault := self._vfs.meet("sync")) is not None:
            raise fault.error()
        self._vfs.record(Op("sync", self._name))

    def excepthook(self, etype: Any, evalue: Any, etraceback: Any) -> bool:  # noqa: ARG002
        return True


def _disk_error(code: int) -> apsw.Error:
    error: Any = apsw.IOError("the disk failed, says the test")
    error.extendedresult = code
    return cast("apsw.Error", error)


class Disk:
    """Replays what was recorded, and returns what the files would hold if the power went now."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._synced = {name: bytearray(data) for name, data in files.items()}
        self._since: dict[str, list[Op]] = {}

    def replay(self, ops: Iterable[Op]) -> None:
        """A sync makes what its file got before it durable; until then it may be lost, in any part."""
        for op in ops:
            if op.kind == "note":
                continue
            since = self._since.setdefault(op.file, [])
            if op.kind != "sync":
                since.append(op)
                continue
            self._synced[op.file] = _written(self._synced.get(op.file), since) or bytearray()
            since.clear()

    def image(self, lose: random.Random | None = None) -> dict[str, bytes]:
        """The files: with all that was written, or with a part of the unsynced sectors lost."""
        found: dict[str, bytes] = {}
        for name in self._synced.keys() | self._since.keys():
            since = self._since.get(name, [])
            kept = since if lose is None else list(_torn(since, lose))
            data = _written(self._synced.get(name), kept)
            if data is not None:
                found[name] = bytes(data)
        return found


def _torn(ops: Iterable[Op], lose: random.Random) -> Iterable[Op]:
    """A random part of the operations, writes cut into sectors. Small writes are lost whole or not at all."""
    share = lose.choice([0.05, 0.3, 0.7, 0.95])
    for op in ops:
        for start in range(0, max(1, len(op.data)), SECTOR):
            if lose.random() >= share:
                yield Op(op.kind, op.file, op.offset + start, op.data[start : start + SECTOR])


def _written(base: bytearray | None, ops: Iterable[Op]) -> bytearray | None:
    data = None if base is None else bytearray(base)
    for op in ops:
        if op.kind == "delete":
            data = None
            continue
        data = bytearray() if data is None else data
        if op.kind == "truncate":
            del data[op.offset :]
            data.extend(bytes(op.offset - len(data)))
        else:
            data.extend(bytes(max(0, op.offset - len(data))))
            data[op.offset : op.offset + len(op.data)] = op.data
    return data
