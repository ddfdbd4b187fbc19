"""The LMDB environment of one stream task: one write transaction, open for seconds, and its metadata.

The task reads and writes only through that transaction; committing it costs a sync, so it is committed only
every few seconds (step 7). What is lost with an aborted transaction is replayed from the changelogs.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import lmdb
import msgspec

from tidegate.errors import StateError
from tidegate.log.positions import Position, TaskId
from tidegate.state.open_here import begin_reading, end_reading, hold, release
from tidegate.state.unsealed import is_unsealed

FORMAT = 1
FIRST_MAP_BYTES = 256 << 20
_META_DB = b":meta"
_META_KEY = b"metadata"
DAMAGED = "damaged"
INTACT = 0x2144DF1C
"""The CRC-32 of any bytes that are followed by their own CRC-32, little endian."""
REPAIR_HINT = "rebuild the task's stores from the log: tidegate state check --repair"
_SPARE_BYTES = 32 << 20
_GROWTH = 3


class StoreFacts(msgspec.Struct, frozen=True):
    """A store's description in a folder's metadata, and the layout of its bytes."""

    kind: str
    changelog: str | None
    key: str
    value: str
    window: int = 0
    """Size of the windows of a window store, in ms."""
    in_memory: bool = False


class Metadata(msgspec.Struct, kw_only=True):
    """The folder's metadata, committed together with the rows that it describes."""

    app: str
    task: TaskId
    log: str
    format: int = FORMAT
    topics: dict[str, str] = {}
    """uid of each store's changelog topic."""
    offsets: dict[str, int] = {}
    """Next changelog offset of each store: its rows are the fold of everything below."""
    current_at: dict[str, int] = {}
    """Wall time at which the rows of each store were last known to be complete."""
    position: Position | None = None
    """The position that the rows belong to; None during a restore."""
    stores: dict[str, StoreFacts] = {}


class Environment:
    """One LMDB environment, opened once in a process and used by one thread."""

    def __init__(
        self, folder: Path, databases: Iterable[str], *, sync: bool = True, max_map_bytes: int = 1 << 40
    ) -> None:
        self.folder = folder
        self.scan_version = 0
        self._max_map_bytes = max_map_bytes
        self._txn: Any = None
        self._thread = 0
        self._applied = 0
        self._env: Any = None
        self._closed = False
        names = [_META_DB, *(name.encode() for name in databases)]
        hold(folder, self)
        try:
            with translated_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)
                self._env = lmdb.open(
                    str(folder),
                    map_size=_first_map(folder),
                    max_dbs=len(names),
                    sync=sync,
                    metasync=sync,
                    max_readers=16,
                )
                self._env.reader_check()
                self.check_undamaged()
                _check_whole(self.folder, self._env)
                self._databases = {name: self._database(name) for name in names}
        except BaseException:
            self.close()
            raise

    @property
    def txn(self) -> Any:
        """The open write transaction."""
        if self._txn is None:
            with translated_errors(self.folder, self.damaged):
                self._txn = self._env.begin(write=True)
                self._thread = threading.get_ident()
        return self._txn

    def database(self, name: str) -> Any:
        return self._databases[name.encode()]

    def metadata(self) -> Metadata | None:
        """Return the committed metadata; None for a new folder."""
        with translated_errors(self.folder):
            found = _metadata(self.txn.get(_META_KEY, db=self._databases[_META_DB]))
            if found is None and any(
                self.txn.stat(database)["entries"] for database in self._databases.values()
            ):
                raise _bad_metadata("there are rows, but the state's metadata is missing")
        return found

    @property
    def applied_bytes(self) -> int:
        """About how many bytes were written in the open transaction."""
        return self._applied

    def needs_room(self, size: int) -> bool:
        """Whether `size` more bytes might not fit: then commit and `grow` before they are applied.

        A page is copied before it is written, and the old page is free only for later transactions: writes to
        scattered keys may need every page of the map a second time.
        """
        used = self._env.info()["last_pgno"] * self._env.stat()["psize"]
        wanted = 2 * used + _GROWTH * (self._applied + size) + _SPARE_BYTES
        return bool(wanted > self._env.info()["map_size"])

    def grow(self, size: int) -> None:
        """Double the map until `size` more bytes fit. Only between transactions."""
        if self._txn is not None:
            raise StateError("grow-in-transaction", "a map cannot grow in a transaction", "commit first")
        while self.needs_room(size):
            wanted = 2 * self._env.info()["map_size"]
            if wanted > self._max_map_bytes:
                raise StateError(
                    "map-limit",
                    f"the state needs more than the allowed map size of {self._max_map_bytes} bytes",
                    "raise the limit, or use more partitions; spark.executor.pyspark.memory limits it too",
                )
            with translated_errors(self.folder):
                self._env.set_mapsize(wanted)

    def damaged(self) -> str:
        """Mark the folder, durably, as one that must be rebuilt. Returns the hint for the error."""
        with suppress(OSError):
            mark_damaged(self.folder)
        return "nothing: the task is opened again, and its stores are rebuilt from the log"

    def touched(self, size: int) -> None:
        """Count rows of this size as written to the transaction."""
        self._applied += size

    def end_scans(self) -> None:
        """End open scans: their rows may change."""
        self.scan_version += 1

    def commit(self, metadata: Metadata) -> None:
        """Commit the rows with their metadata, synced."""
        self._check_thread()
        with translated_errors(self.folder, self.damaged):
            self.txn.put(_META_KEY, _sealed(msgspec.json.encode(metadata)), db=self._databases[_META_DB])
            txn, self._txn = self._txn, None
            self.scan_version += 1
            self._applied = 0
            txn.commit()

    def abort(self) -> None:
        """Roll back to the last commit.

        Only the thread that began a write transaction can end it: its lock is in the memory map and in a list
        of that thread, and an entry that is unmapped but still listed crashes the process later.
        """
        self._check_thread()
        if self._txn is not None:
            txn, self._txn = self._txn, None
            self.scan_version += 1
            self._applied = 0
            txn.abort()

    def close(self) -> None:
        """Abort the open transaction, and close. Idempotent."""
        if self._closed:
            return
        self.abort()
        if self._env is not None:
            self._env.close()
        self._closed = True
        release(self.folder)

    def _check_thread(self) -> None:
        if self._txn is not None and self._thread != threading.get_ident():
            raise StateError(
                "other-thread",
                "a task's state is used by another thread than the one that began its transaction",
                "this is a bug: report it",
            )

    def check_undamaged(self) -> None:
        """Raise if a task or `tidegate state check --repair` found a damaged row here."""
        if (self.folder / DAMAGED).exists():
            raise StateError("corrupt-state", "a damaged row was found in it", "it is rebuilt from the log")

    def _database(self, name: bytes) -> Any:
        try:
            return self._env.open_db(name, create=False)
        except lmdb.NotFoundError:
            return self._env.open_db(name)


class ReadOnlyEnvironment:
    """The committed contents of a folder, readable while a task holds it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scan_version = 0
        self._env: Any = None
        self.txn: Any = None
        self._closed = False
        begin_reading(folder)
        try:
            with translated_errors(folder):
                self._env = lmdb.open(str(folder), readonly=True, create=False, max_dbs=256, max_readers=16)
                _check_whole(folder, self._env)
                self.txn = self._env.begin()
        except BaseException:
            self.close()
            raise

    def damaged(self) -> str:
        """Return the hint for the error; a read-only environment marks nothing."""
        return REPAIR_HINT

    def touched(self, size: int) -> None:
        raise StateError("read-only", f"{size} bytes cannot be written here", "this is a bug: report it")

    def has(self, name: str) -> bool:
        """Whether there is such a database. Raises StateError if that cannot be read."""
        with translated_errors(self.folder):
            try:
                self._env.open_db(name.encode(), txn=self.txn, create=False)
            except lmdb.NotFoundError:
                return False
        return True

    def copy(self, target: Path) -> None:
        """Write a compacted copy into a folder that exists."""
        self._env.copy(str(target), compact=True)

    def rows(self, name: str) -> int:
        """Return how many rows a database has."""
        return int(self.txn.stat(self.database(name))["entries"])

    def database(self, name: str) -> Any:
        with translated_errors(self.folder):
            return self._env.open_db(name.encode(), txn=self.txn, create=False)

    def metadata(self) -> Metadata | None:
        """Return the committed metadata; None if nothing was committed in the folder yet."""
        with translated_errors(self.folder):
            there = self.has(_META_DB.decode())
            found = _metadata(self.txn.get(_META_KEY, db=self.database(_META_DB.decode()))) if there else None
            if found is None and (self._rows_anywhere() or not (there or self._is_new())):
                raise _bad_metadata("there are rows, but the state's metadata is missing")
        return found

    def _is_new(self) -> bool:
        return int(self.txn.stat(None)["entries"]) == 0

    def _rows_anywhere(self) -> bool:
        names = [bytes(name).decode() for name, _ in self.txn.cursor()]
        return any(self.rows(name) for name in names)

    def close(self) -> None:
        """Close it. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self.txn is not None:
            self.txn.abort()
        if self._env is not None:
            self._env.close()
        end_reading(self.folder)


def _check_whole(folder: Path, env: Any) -> None:
    """Raise for a truncated file: reading beyond its end would crash the process."""
    wanted = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    if (folder / "data.mdb").stat().st_size < wanted:
        raise StateError("corrupt-state", "the state's file is truncated", "it is rebuilt from the log")


def copy_environment(source: Path, target: Path) -> bool:
    """Copy the committed contents of a folder that another process holds. Return False if that fails.

    A compacting copy, because a plain copy waits for the holder's write transaction, which a suspended holder
    never ends.
    """
    try:
        with closing(ReadOnlyEnvironment(source)) as environment, translated_errors(source):
            target.mkdir(parents=True, exist_ok=True)
            environment.copy(target)
    except StateError:
        return False
    return True


class translated_errors:  # noqa: N801 - reads as a statement
    """Raises LMDB's and the system's errors as StateErrors; `damaged` is called for a page that cannot be
    read, and returns the hint. A class and not a generator, because it runs in every commit."""

    def __init__(self, folder: Path, damaged: Callable[[], str] | None = None) -> None:
        self._folder = folder
        self._damaged = damaged

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None or not isinstance(error, lmdb.Error | OSError):
            return
        state_error = translated(error, self._folder)
        if self._damaged is not None and state_error.code == "corrupt-state":
            state_error.hint = self._damaged()
        raise state_error from error


def translated(error: BaseException, folder: Path) -> StateError:
    """Translate an error of LMDB or the system into a StateError."""
    if isinstance(error, lmdb.MapFullError):
        return StateError("map-full", "the state is larger than its map", "open the task again: it grows")
    if isinstance(
        error, lmdb.CorruptedError | lmdb.InvalidError | lmdb.VersionMismatchError | lmdb.PageNotFoundError
    ):
        return StateError(
            "corrupt-state", f"the state on disk is damaged ({error})", "it is rebuilt from the log"
        )
    if "No space left" in str(error) or "File too large" in str(error) or _is_full(folder):
        return StateError("disk-full", "the disk of the state is full", "free some space", retryable=True)
    if isinstance(error, PermissionError) or "Permission denied" in str(error):
        return StateError("no-permission", f"no permission to use {folder}", "check its owner and mode")
    return StateError("state-io", f"the state's disk failed ({error})", "check the disk", retryable=True)


def _is_full(folder: Path) -> bool:
    """Whether the disk is full: LMDB reports an incomplete write like any other failure."""
    return folder.exists() and shutil.disk_usage(folder).free < 1 << 20


def _sealed(raw: bytes) -> bytes:
    return raw + crc32(_META_KEY + raw).to_bytes(4, "little")


_metadata_decoder = msgspec.json.Decoder(Metadata)


def _metadata(sealed: bytes | None) -> Metadata | None:
    """Decode the metadata after checking its checksum: a wrong offset would skip changelog records."""
    if sealed is None:
        return None
    old = is_unsealed(sealed)
    if not old and crc32(_META_KEY + sealed) != INTACT:
        raise _bad_metadata("the state's metadata cannot be read: it does not match its checksum")
    try:
        return _metadata_decoder.decode(sealed if old else sealed[:-4])
    except msgspec.DecodeError as error:
        raise _bad_metadata(f"the state's metadata cannot be read: {error}") from error


def _bad_metadata(why: str) -> StateError:
    return StateError("bad-metadata", why, REPAIR_HINT)


def mark_damaged(folder: Path) -> None:
    """Mark the folder, so that its current or next holder rebuilds it. Raises OSError."""
    (folder / DAMAGED).touch()


def _first_map(folder: Path) -> int:
    """Return the initial map size: at least twice the file's size."""
    data = folder / "data.mdb"
    size = data.stat().st_size if data.exists() else 0
    wanted = FIRST_MAP_BYTES
    while wanted < 2 * size:
        wanted *= 2
    return wanted
