"""Check a file before it is used: that it is a tidegate log, of a supported format, and intact.

First the bytes, before SQLite may touch them (1 a SQLite file; 2 written by tidegate; 3 of this format; 4 not
truncated; 5 the WAL of a crash not damaged), then, once it is open, what every read depends on (6 the
settings and tables are as they were created; 7 the b-trees of the small tables are intact: no checksum would
reveal a row missing from one of them, as the gap does for spans)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import apsw

from tidegate.errors import LogError
from tidegate.log.sqlite.layout import APPLICATION_ID, DDL, FORMAT, PAGE_SIZE, corrupt
from tidegate.log.sqlite.wal_check import check_wal

_MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_ATTEMPTS = 3
_SMALL_TABLES = ("synced", "meta", "topic", "partition", "pending", "writer")
_SCHEMA = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema ORDER BY rowid"


def check_file(path: Path, vfs: str | None) -> None:
    """Run checks 1 to 5. They never change the file.

    A process that closes the log at the same time moves its WAL into the file and deletes the WAL, so a
    failed check is repeated: real damage stays.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _check_bytes(path, vfs)
        except FileNotFoundError:
            continue
        except LogError as error:
            if error.code != "corrupt":
                raise
    return _check_bytes(path, vfs)


def _check_bytes(path: Path, vfs: str | None) -> None:
    size = path.stat().st_size if path.is_file() else 0
    if size < _HEADER_BYTES:
        raise LogError(
            "not-a-log", f"{path} is not a tidegate log", "name another file, or move this one away"
        )
    with _opened(path, vfs) as file:
        header = file.xRead(_HEADER_BYTES, 0)
        _check_header(path, header)
        wal = path.with_name(path.name + "-wal")
        if wal.exists() and wal.stat().st_size:
            check_wal(wal, lambda: _is_alone(file))
        elif (pages := _number(header, 28)) * PAGE_SIZE > size:
            raise corrupt(f"it ends before page {pages}, although its header counts {pages} pages")


def _check_header(path: Path, header: bytes) -> None:
    if not header.startswith(_MAGIC):
        raise LogError(
            "not-a-log", f"{path} is not a tidegate log", "name another file, or move this one away"
        )
    if _number(header, 68) != APPLICATION_ID:
        raise LogError("not-a-log", f"{path} is a SQLite file of another program", "name another file")
    if (version := _number(header, 60)) != FORMAT:
        raise LogError(
            "unknown-format",
            f"{path} has format {version}; this version of tidegate reads format {FORMAT}",
            "use the version of tidegate that wrote it, or a newer one",
        )


def check_contents(connection: apsw.Connection) -> None:
    """Run checks 6 and 7."""
    settings = [connection.pragma(name) for name in ("journal_mode", "page_size", "auto_vacuum", "encoding")]
    if settings != ["wal", PAGE_SIZE, 2, "UTF-8"] or _schema_of(connection) != _expected_schema():
        raise corrupt("its tables or settings differ from those it was created with")
    for table in _SMALL_TABLES:
        [(found,), *_] = connection.execute(f"PRAGMA integrity_check({table})").fetchall()
        if found != "ok":
            raise corrupt(f"table {table}: {found}")


def _schema_of(connection: apsw.Connection) -> list[tuple[Any, ...]]:
    return connection.execute(_SCHEMA).fetchall()


@cache
def _expected_schema() -> list[tuple[Any, ...]]:
    connection = apsw.Connection(":memory:")
    connection.execute(DDL).fetchall()
    schema = _schema_of(connection)
    connection.close()
    return schema


@contextmanager
def _opened(path: Path, vfs: str | None) -> Iterator[apsw.VFSFile]:
    """Open the raw file through SQLite's own VFS layer, which knows the locks that other connections of this
    process hold. With POSIX locks, closing a separate file handle would release all of them."""
    flags = [apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_MAIN_DB, 0]
    file = apsw.VFSFile(vfs or "", str(path.absolute()), flags)
    try:
        yield file
    finally:
        file.xUnlock(apsw.SQLITE_LOCK_NONE)
        file.xClose()


def _is_alone(file: apsw.VFSFile) -> bool:
    """Whether no connection is open in any process: each holds a shared lock while it is open. The lock taken
    here makes new ones wait. Return False if the lock cannot be taken (a read-only file, for example)."""
    try:
        file.xLock(apsw.SQLITE_LOCK_SHARED)
        file.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
    except apsw.Error:
        return False
    return True


def _number(header: bytes, offset: int) -> int:
    return int.from_bytes(header[offset : offset + 4], "big")
