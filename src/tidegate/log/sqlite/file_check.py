"""What is looked at before a file is used: is it ours, of a format we know, and whole.

First the bytes, before SQLite may touch them (1 a SQLite file; 2 of ours; 3 of this format; 4 not cut off;
5 the WAL of a crash not damaged), then, once it is open, what every read stands on (6 the settings and the
tables are as they were made; 7 the trees of the small tables are whole: a row that vanished from one of
them would not show by any checksum, as it does for spans, which tile).
"""

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
_LOOKS = 3
_SMALL_TABLES = ("synced", "meta", "topic", "partition", "pending", "writer")
_SCHEMA = "SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema ORDER BY rowid"


def check_file(path: Path, vfs: str | None) -> None:
    """Checks 1 to 5. The file is left as it is, whatever it is.

    A process that closes the log meanwhile moves its WAL into the file and deletes it, so what looks wrong
    is looked at again: damage stays.
    """
    for _ in range(_LOOKS - 1):
        try:
            return _look_at(path, vfs)
        except FileNotFoundError:
            continue
        except LogError as error:
            if error.code != "corrupt":
                raise
    return _look_at(path, vfs)


def _look_at(path: Path, vfs: str | None) -> None:
    size = path.stat().st_size if path.is_file() else 0
    if size < _HEADER_BYTES:
        raise LogError("not-a-log", f"{path} is no tidegate log", "name another file, or move this one away")
    with _opened(path, vfs) as file:
        header = file.xRead(_HEADER_BYTES, 0)
        _check_header(path, header)
        wal = path.with_name(path.name + "-wal")
        if wal.exists() and wal.stat().st_size:
            check_wal(wal, lambda: _is_alone(file))
        elif (pages := _number(header, 28)) * PAGE_SIZE > size:
            raise corrupt(f"it ends before page {pages}, which its header tells of")


def _check_header(path: Path, header: bytes) -> None:
    if not header.startswith(_MAGIC):
        raise LogError("not-a-log", f"{path} is no tidegate log", "name another file, or move this one away")
    if _number(header, 68) != APPLICATION_ID:
        raise LogError("not-a-log", f"{path} is a SQLite file of another program", "name another file")
    if (version := _number(header, 60)) != FORMAT:
        raise LogError(
            "unknown-format",
            f"{path} has format {version}; this tidegate knows format {FORMAT}",
            "use the tidegate that wrote it, or a newer one",
        )


def check_contents(connection: apsw.Connection) -> None:
    """Checks 6 and 7."""
    settings = [connection.pragma(name) for name in ("journal_mode", "page_size", "auto_vacuum", "encoding")]
    if settings != ["wal", PAGE_SIZE, 2, "UTF-8"] or _schema_of(connection) != _expected_schema():
        raise corrupt("its tables are not as they were made")
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
    """The bare file, through SQLite's own file system layer: it knows the locks that other connections of
    this process hold. Closing a handle of our own would drop them all, as POSIX says."""
    flags = [apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_MAIN_DB, 0]
    file = apsw.VFSFile(vfs or "", str(path.absolute()), flags)
    try:
        yield file
    finally:
        file.xUnlock(apsw.SQLITE_LOCK_NONE)
        file.xClose()


def _is_alone(file: apsw.VFSFile) -> bool:
    """Whether no connection is open, in any process: each holds a shared lock as long as it lives. The lock
    taken here keeps new ones waiting. Where it cannot be had (a read-only file) nobody can know."""
    try:
        file.xLock(apsw.SQLITE_LOCK_SHARED)
        file.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
    except apsw.Error:
        return False
    return True


def _number(header: bytes, offset: int) -> int:
    return int.from_bytes(header[offset : offset + 4], "big")
