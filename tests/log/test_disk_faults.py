"""Disk full, failed sync, read-only: a clear error, nothing committed is lost, nothing else is seen (I1, I3).

Each protocol is run once for each write (or sync) that it makes, with that one failing, until a run meets
no fault any more.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.log.faulty_vfs import FaultyVfs
from tests.log.history import (
    BIG,
    FROM_START,
    MEDIUM,
    PARTITIONS,
    TABLE,
    append,
    check_goes_on,
    check_holds,
    check_whole,
    code_of,
    commit,
    create_topics,
    files_of,
    forking,
    put,
)

from tidegate.errors import LogError
from tidegate.log.sqlite import append as log_append
from tidegate.log.sqlite import upkeep
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.writer import SPILL_BYTES
from tidegate.log.topic import TopicSpec

ACKNOWLEDGED = [0, 1, 2, 3]
SMALL = 5


@pytest.fixture
def vfs() -> Iterator[FaultyVfs]:
    vfs = FaultyVfs()
    yield vfs
    vfs.unregister()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with some acknowledged transactions, closed."""
    path = tmp_path_factory.mktemp("base") / "log.db"
    vfs = FaultyVfs()
    with closing(SqliteLog(path, upkeep=False, vfs=vfs.name)) as log:
        create_topics(log)
        with closing(log.writer("writer")) as writer:
            for number in ACKNOWLEDGED:
                commit(writer, number)
    return path


def logs(
    base: Path, folder: Path, vfs: FaultyVfs, spill_bytes: int = SPILL_BYTES
) -> Iterator[tuple[int, SqliteLog]]:
    """(1, a fresh copy), (2, another), ... until a round has met no fault."""
    for at in count(1):
        path = folder / f"{at}.db"
        shutil.copy(base, path)
        with closing(SqliteLog(path, upkeep=False, vfs=vfs.name, spill_bytes=spill_bytes)) as log:
            yield at, log
        path.unlink()


def fails_with(code: str, call: Callable[[], object]) -> bool:
    """Whether the call failed; if so, with this code and a hint."""
    try:
        call()
    except LogError as error:
        found = code_of(error)
    else:
        return False
    assert found == code
    return True


FULL = [
    pytest.param({"stays": True}, id="full"),
    pytest.param({"stays": False}, id="full-for-a-moment"),
    pytest.param({"stays": True, "short": True}, id="short-write"),
]


@pytest.mark.parametrize("fault", FULL)
def test_a_commit_that_finds_the_disk_full_leaves_nothing_and_the_log_goes_on(
    base: Path, tmp_path: Path, vfs: FaultyVfs, fault: dict[str, bool]
) -> None:
    at = 0
    for at, log in logs(base, tmp_path, vfs):
        writer = log.writer("writer")
        append(writer, SMALL)
        vfs.disk_full(at, **fault)
        failed = fails_with("disk-full", writer.commit)
        check_holds(log, ACKNOWLEDGED if failed else [*ACKNOWLEDGED, SMALL])
        struck = vfs.heal()
        assert failed == struck
        if not struck:
            break
        assert fails_with("writer-spent", writer.commit)
        done = check_goes_on(log, ACKNOWLEDGED, 6)
        check_after_a_kill(log, tmp_path / f"killed-{at}", done)
    assert at > 8


def test_a_spill_that_finds_the_disk_full_leaves_nothing_and_the_log_goes_on(
    base: Path, tmp_path: Path, vfs: FaultyVfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_append, "PIECE_BYTES", 20_000)  # so that little data is many pieces
    at = 0
    for at, log in logs(base, tmp_path, vfs, spill_bytes=50_000):
        writer = log.writer("writer")
        vfs.disk_full(at, stays=at % 2 == 0)
        failed = fails_with("disk-full", partial(commit, writer, MEDIUM))
        check_holds(log, ACKNOWLEDGED if failed else [*ACKNOWLEDGED, MEDIUM])
        if not vfs.heal():
            break
        assert failed
        assert fails_with("writer-spent", writer.commit), "a half spilled transaction must not go on"
        check_goes_on(log, ACKNOWLEDGED, 6)
        assert pending(log) == 0, "the next holder of the id sweeps what was spilled"
    assert at > 20


def test_a_compaction_that_finds_the_disk_full_changes_no_table_and_can_be_done_again(
    base: Path, tmp_path: Path, vfs: FaultyVfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "WAL_SOFT_BYTES", 0)  # so that each compaction ends in a checkpoint
    at = 0
    for at, log in logs(base, tmp_path, vfs):
        vfs.disk_full(at, stays=at % 2 == 0, short=at % 3 == 0)
        failed = fails_with("disk-full", partial(log.compact, TABLE))
        check_holds(log, ACKNOWLEDGED)
        struck = vfs.heal()
        assert failed == struck
        if not struck:
            break
        log.compact(TABLE)
        check_goes_on(log, ACKNOWLEDGED, 6)
    assert at > 20


def test_a_topic_or_writer_that_finds_the_disk_full_is_not_there_and_can_be_made_again(
    base: Path, tmp_path: Path, vfs: FaultyVfs
) -> None:
    at = 0
    for at, log in logs(base, tmp_path, vfs):
        vfs.disk_full(at)
        refused = fails_with("disk-full", partial(log.create, TopicSpec("new", 3)))
        assert ("new" in log.names()) != refused
        failed = fails_with("disk-full", partial(log.writer, "other"))
        struck = vfs.heal()
        assert struck == (refused or failed)
        if not struck:
            break
        assert log.create(TopicSpec("new", 3)).starts == (0, 0, 0)
        check_goes_on(log, ACKNOWLEDGED, 6, "other")
    assert at > 8


def test_a_new_file_that_finds_the_disk_full_is_not_there_and_nothing_lies_about(
    tmp_path: Path, vfs: FaultyVfs
) -> None:
    path = tmp_path / "folder" / "log.db"
    at = 0
    for at in count(1):
        vfs.disk_full(at, short=at % 2 == 0)
        failed = fails_with("disk-full", lambda: SqliteLog(path, upkeep=False, vfs=vfs.name).close())
        struck = vfs.heal()
        if not failed:
            break
        assert struck
        assert list(path.parent.iterdir()) == []
    assert at > 20
    with closing(SqliteLog(path, upkeep=False, vfs=vfs.name)) as log:
        create_topics(log)
        check_goes_on(log, [], 1)


def test_a_checkpoint_on_close_that_finds_the_disk_full_loses_nothing(
    base: Path, tmp_path: Path, vfs: FaultyVfs
) -> None:
    at = 0
    for at in count(1):
        path = tmp_path / str(at) / "log.db"
        put(path.parent, files_of(base))
        log = SqliteLog(path, upkeep=False, vfs=vfs.name)
        done = check_goes_on(log, ACKNOWLEDGED, SMALL)
        vfs.disk_full(at)
        fails_with("disk-full", log.close)
        struck = vfs.heal()
        with closing(SqliteLog(path, upkeep=False, vfs=vfs.name)) as log:
            check_goes_on(log, done, 6)
        if not struck:
            break
    assert at > 4


@pytest.mark.parametrize("number", [SMALL, BIG], ids=["small", "spilled"])
@pytest.mark.parametrize("stays", [False, True])
def test_a_commit_whose_sync_fails_is_unknown_and_shows_wholly_or_not_at_all_when_reopened(
    base: Path, tmp_path: Path, vfs: FaultyVfs, number: int, stays: bool
) -> None:
    at = 0
    for at, log in logs(base, tmp_path, vfs):
        assert log.path is not None
        writer = log.writer("writer")
        append(writer, number)
        vfs.sync_fails(at, stays=stays)
        if not fails_with("commit-unknown", writer.commit):
            assert not vfs.heal()
            check_holds(log, [*ACKNOWLEDGED, number])
            break
        assert fails_with("writer-spent", writer.commit)
        assert fails_with("commit-unknown", partial(log.ends, PARTITIONS))
        assert fails_with("commit-unknown", partial(log.writer, "other"))
        crashed = tmp_path / f"crashed-{at}"
        put(crashed, files_of(log.path))
        fails_with("io-error", log.close)
        vfs.heal()
        for path in (log.path, crashed / log.path.name):
            with closing(SqliteLog(path, upkeep=False, vfs=vfs.name)) as again:
                done = check_whole(again, ACKNOWLEDGED, number)
                check_goes_on(again, done, 6)
    assert at > 1


def test_a_disk_that_turned_read_only_refuses_writes_by_name_and_goes_on_reading(
    base: Path, tmp_path: Path, vfs: FaultyVfs
) -> None:
    path = tmp_path / "log.db"
    shutil.copy(base, path)
    with closing(SqliteLog(path, upkeep=False, vfs=vfs.name)) as log:
        writer = log.writer("writer")
        append(writer, SMALL)
        vfs.read_only()
        assert fails_with("read-only", writer.commit)
        assert fails_with("read-only", lambda: log.writer("other"))
        assert fails_with("read-only", lambda: log.create(TopicSpec("new")))
        assert fails_with("read-only", lambda: log.compact(TABLE))
        check_holds(log, ACKNOWLEDGED)
        vfs.heal()
        check_goes_on(log, ACKNOWLEDGED, 6)


def test_a_read_that_fails_is_an_error_by_name_and_the_next_one_works(
    base: Path, tmp_path: Path, vfs: FaultyVfs
) -> None:
    path = tmp_path / "log.db"
    shutil.copy(base, path)

    def open_and_read() -> None:
        with closing(SqliteLog(path, upkeep=False, vfs=vfs.name)) as log:
            check_holds(log, ACKNOWLEDGED)

    at = 0
    for at in count(1):
        vfs.read_fails(at)
        failed = fails_with("io-error", open_and_read)
        struck = vfs.heal()
        assert failed == struck
        if not struck:
            break
        assert path.read_bytes() == base.read_bytes()
    assert at > 20


def test_a_log_goes_on_after_a_read_that_failed(base: Path, tmp_path: Path, vfs: FaultyVfs) -> None:
    at = 0
    for at, log in logs(base, tmp_path, vfs):
        vfs.read_fails(at)
        failed = fails_with("io-error", partial(check_holds, log, ACKNOWLEDGED))
        struck = vfs.heal()
        assert failed == struck
        check_goes_on(log, ACKNOWLEDGED, 6)
        if not struck:
            break
    assert at > 4


def test_a_closed_log_and_a_closed_reader_refuse_calls(base: Path, vfs: FaultyVfs) -> None:
    log = SqliteLog(base, upkeep=False, vfs=vfs.name)
    reader = log.reader(FROM_START)
    assert reader.poll(0)
    reader.close()
    assert fails_with("closed", partial(reader.poll, 0))
    log.close()
    for call in (log.names, partial(log.writer, "writer"), partial(log.compact, TABLE)):
        assert fails_with("closed", call)


NOBODY = 65534


def attempts_without_rights(folder: Path, own: Path) -> dict[str, str]:
    """For a child. It rehearses on a log of its own, to import all that it needs while it may read it."""
    assert set(attempts(own).values()) == {"works"}
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    return attempts(folder)


def attempts(folder: Path) -> dict[str, str]:
    """What comes of the things that one may try on a log."""
    tries: dict[str, Callable[[SqliteLog], object]] = {
        "read": lambda log: check_holds(log, ACKNOWLEDGED),
        "writer": lambda log: log.writer("writer"),
        "create": lambda log: log.create(TopicSpec("new")),
        "compact": lambda log: log.compact(TABLE),
    }
    found = {}
    for name, call in tries.items():
        try:
            with closing(SqliteLog(folder / "log.db", upkeep=False)) as log:
                call(log)
            found[name] = "works"
        except LogError as error:
            found[name] = code_of(error)
        except BaseException as error:  # noqa: BLE001 - that is what must not happen
            found[name] = repr(error)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file_mode", "folder_mode", "reads"),
    [(0o444, 0o555, False), (0o444, 0o777, True), (0o000, 0o555, False), (None, 0o555, False)],
    ids=["both-read-only", "file-read-only", "file-not-readable", "no-file"],
)
def test_a_log_without_the_right_to_write_refuses_by_name_and_stays_as_it_is(
    base: Path, tmp_path: Path, file_mode: int | None, folder_mode: int, reads: bool
) -> None:
    put(tmp_path / "own", files_of(base))
    with TemporaryDirectory() as parent:  # the folders of pytest are closed to others
        Path(parent).chmod(0o755)
        folder = Path(parent) / "folder"
        folder.mkdir()
        if file_mode is not None:
            shutil.copy(base, folder / "log.db")
            (folder / "log.db").chmod(file_mode)
        folder.chmod(folder_mode)
        before = files_of(folder / "log.db").get("log.db")
        with ProcessPoolExecutor(1, forking()) as pool:
            found = pool.submit(attempts_without_rights, folder, tmp_path / "own").result()
        assert files_of(folder / "log.db").get("log.db") == before
        folder.chmod(0o755)
    assert (found.pop("read") == "works") == reads
    assert set(found.values()) <= {"read-only", "cannot-open"}, found


def check_after_a_kill(log: SqliteLog, folder: Path, done: list[int]) -> None:
    """Frames that a failed commit left behind in the WAL are no damage to the next process that opens it."""
    assert log.path is not None
    put(folder, files_of(log.path))
    with closing(SqliteLog(folder / log.path.name, upkeep=False)) as again:
        check_holds(again, done)


def pending(log: SqliteLog) -> int:
    """How many batches of unfinished transactions lie in the file."""
    with log._database.read() as connection:
        return len(connection.execute("SELECT batch FROM pending").fetchall())
