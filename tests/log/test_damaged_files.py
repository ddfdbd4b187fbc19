"""A flipped byte, a cut off file, a file of another program: an error by name with a hint, never other data.

Whatever is wrong with a file, opening it leaves it as it is.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.log.faulty_vfs import FaultyVfs
from tests.log.history import (
    PARTITIONS,
    TABLE,
    code_of,
    commit,
    create_topics,
    files_of,
    put,
    read_all,
)
from tests.repetitions import repeated

from tidegate.errors import LogError
from tidegate.log.reads import fold
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.database import Database
from tidegate.log.sqlite.filesystem import file_system_of
from tidegate.log.sqlite.layout import PAGE_SIZE
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.types import Offset, TopicPartition

NAME = "log.db"
PURGED = TopicPartition("purged", 0)
REFUSED = {"corrupt", "not-a-log", "unknown-format"}
DONE = [*range(4), *range(5, 25)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a file with everything in it: spilled batches, a compacted table, a purged topic, a
    deleted one, free pages, writers."""
    path = tmp_path_factory.mktemp("whole") / NAME
    vfs = FaultyVfs()
    with closing(SqliteLog(path, upkeep=False, vfs=vfs.name, spill_bytes=50_000)) as log:
        create_topics(log)
        log.create(TopicSpec(PURGED.topic, 1, {"retention.ms": "1000000"}))
        log.create(TopicSpec("deleted", 40))
        rng = random.Random(0)
        for i in range(6):
            log.append(PURGED, to_batch([Row(b"%d" % i, rng.randbytes(3000), i, [("h", None)])]))
        log.purge(PURGED, Offset(2))
        with closing(log.writer("writer")) as writer:
            for number in DONE:
                commit(writer, number)
        log.compact(TABLE)
        log.delete("deleted")
        log.writer("another").close()
    assert not path.with_name(NAME + "-wal").exists()
    return path.read_bytes()


def observe(path: Path, vfs: FaultyVfs) -> dict[str, Any]:
    """Everything that can be read from a log."""
    with closing(SqliteLog(path, upkeep=False, vfs=vfs.name)) as log:
        names = log.names()
        infos = {name: log.describe(name) for name in names}
        every = [TopicPartition(name, number) for name in names for number in range(infos[name].partitions)]
        return {
            "id": log.id,
            "topics": infos,
            "ends": log.ends(every),
            "rows": read_all(log, {at: Offset(infos[at.topic].starts[at.partition]) for at in every}),
            "tables": [fold(log, partition) for partition in PARTITIONS if partition.topic == TABLE],
            "times": [log.offset_at(partition, time) for partition in every for time in (3, 1_011)],
        }


@pytest.fixture
def vfs() -> Iterator[FaultyVfs]:
    vfs = FaultyVfs()
    yield vfs
    vfs.unregister()


def refused(path: Path, call: Any) -> str:
    """The code with which the call refuses a file that it leaves as it is, and no litter beside it."""
    before = {file: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    with pytest.raises(LogError) as raised:
        call(path)
    after = {file: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    assert after == before
    return code_of(raised.value)


def opened(path: Path) -> None:
    SqliteLog(path, upkeep=False).close()


class Flips:
    """One flipped byte after the other, each in a file of its own."""

    def __init__(self, whole: bytes, folder: Path, vfs: FaultyVfs) -> None:
        self._whole = whole
        self._path = folder / NAME
        self._vfs = vfs
        self._path.write_bytes(whole)
        self._wanted = observe(self._path, vfs)
        assert self._path.read_bytes() == whole
        self.harmless = self.refused = 0

    def check(self, position: int, mask: int) -> None:
        """The file gives exactly what it gave before, or an error by name; either way it stays as it is."""
        damaged = bytearray(self._whole)
        damaged[position] ^= mask
        self._path.write_bytes(damaged)
        try:
            found = observe(self._path, self._vfs)
        except LogError as error:
            code = code_of(error)
            self.refused += 1
        else:
            code = ""
            self.harmless += 1
            assert found == self._wanted, f"other data with {mask:#x} at {position}"
        assert code in REFUSED or not code
        assert self._path.read_bytes() == damaged


def pages_by_table(whole: bytes, folder: Path) -> dict[str, list[int]]:
    """The page numbers of each table and index."""
    (folder / "look.db").write_bytes(whole)
    with closing(apsw.Connection(str(folder / "look.db"))) as connection:
        found: dict[str, list[int]] = {}
        for name, page in connection.execute("SELECT name, pageno FROM dbstat"):
            found.setdefault(str(name), []).append(int(str(page)))
    return found


def used(whole: bytes, page: int) -> list[int]:
    """Where a page has something: what is zero is mostly free."""
    start = (page - 1) * PAGE_SIZE
    return [at for at in range(start, start + PAGE_SIZE) if whole[at]]


def test_a_flipped_byte_in_any_table_is_an_error_or_does_not_matter(
    whole: bytes, tmp_path: Path, vfs: FaultyVfs
) -> None:
    flips = Flips(whole, tmp_path, vfs)
    rng = random.Random(1)
    tables = pages_by_table(whole, tmp_path)
    assert {"sqlite_schema", "synced", "meta", "topic", "partition", "span", "batch", "writer"} <= set(tables)
    for pages in tables.values():
        page = rng.choice(pages)
        flips.check((page - 1) * PAGE_SIZE + rng.choice([3, 4]), 1 << rng.randrange(8))
        for position in rng.sample(used(whole, page), 4):
            flips.check(position, 1 << rng.randrange(8))
    assert flips.refused > 30


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(repeated(1, soak=50)))
def test_a_flipped_byte_anywhere_is_an_error_or_does_not_matter(
    whole: bytes, tmp_path: Path, vfs: FaultyVfs, seed: int
) -> None:
    flips = Flips(whole, tmp_path, vfs)
    rng = random.Random(seed)
    for page in range(1, len(whole) // PAGE_SIZE + 1):
        for position in rng.sample(range(100 if page == 1 else 12), 5):
            flips.check((page - 1) * PAGE_SIZE + position, 1 << rng.randrange(8))
        for position in rng.sample(used(whole, page) or [page * PAGE_SIZE - 1], 1) * 5:
            flips.check(position, rng.randrange(1, 256))
        flips.check(rng.randrange((page - 1) * PAGE_SIZE, page * PAGE_SIZE), rng.randrange(1, 256))
    assert flips.refused > 60


def test_a_cut_off_file_is_refused_at_any_length(whole: bytes, tmp_path: Path) -> None:
    rng = random.Random(2)
    lengths = [1, 99, 100, 1000, PAGE_SIZE - 1, PAGE_SIZE, len(whole) - PAGE_SIZE, len(whole) - 1]
    for length in [*lengths, *(rng.randrange(len(whole)) for _ in range(20))]:
        path = tmp_path / str(length) / NAME
        put(path.parent, {NAME: whole[:length]})
        assert refused(path, opened) == ("not-a-log" if length < 100 else "corrupt")


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"Dear diary,\n" * 100, b"\x7fELF" + bytes(5000), b"SQLite format 3\x00" + bytes(200)],
)
def test_a_file_that_is_no_log_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / NAME
    path.write_bytes(content)
    assert refused(path, opened) == "not-a-log"


def test_a_folder_and_a_pipe_are_refused_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path, opened) == "not-a-log"
    assert refused(tmp_path / "pipe", opened) == "not-a-log"


def test_a_path_through_a_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    with pytest.raises(LogError) as raised:
        opened(tmp_path / "file" / NAME)
    assert code_of(raised.value) == "cannot-open"


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_sqlite_file_of_another_program_is_refused_by_name_and_its_wal_stays(
    tmp_path: Path, journal: str
) -> None:
    (tmp_path / "theirs").mkdir()
    theirs = sqlite3.connect(tmp_path / "theirs" / NAME)
    theirs.execute(f"PRAGMA journal_mode = {journal}")
    theirs.execute("CREATE TABLE notes (text TEXT)")
    theirs.execute("INSERT INTO notes VALUES ('mine')")
    theirs.commit()
    put(tmp_path / "left", files_of(tmp_path / "theirs" / NAME))
    theirs.close()
    assert refused(tmp_path / "left" / NAME, opened) == "not-a-log"


@pytest.mark.parametrize("version", [0, 2, 999])
def test_a_log_of_another_format_is_refused_by_name(whole: bytes, tmp_path: Path, version: int) -> None:
    path = tmp_path / NAME
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    assert refused(path, opened) == "unknown-format"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE topic SET partitions = 1 WHERE name = 'events'",
        "UPDATE partition SET next = next - 1 WHERE id = 1",
        "UPDATE span SET max_timestamp = 5 WHERE partition = 1",
        "DELETE FROM span WHERE last = (SELECT max(last) FROM span WHERE partition = 1)",
        "UPDATE batch SET data = zeroblob(length(data)) WHERE id = (SELECT max(batch) FROM span)",
        "UPDATE batch SET data = 'text'",
        "UPDATE meta SET value = 'another'",
        "ALTER TABLE span ADD COLUMN more",
        "DROP TABLE writer",
    ],
)
def test_a_change_by_another_hand_shows_as_damage(
    whole: bytes, tmp_path: Path, vfs: FaultyVfs, change: str
) -> None:
    path = tmp_path / NAME
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change)
        connection.commit()
    assert refused(path, partial(observe, vfs=vfs)) == "corrupt"


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/export /mnt/far nfs4 rw 0 0
/dev/sdb1 /mnt/far/near xfs rw 0 0
//host/share /mnt/with\\040space cifs rw 0 0
host: /mnt/m\u00e4rz fuse.sshfs rw 0 0
garbage
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/log.db", "ext4"),
        ("/mnt/far/log.db", "nfs4"),
        ("/mnt/far", "nfs4"),
        ("/mnt/farther/log.db", "ext4"),
        ("/mnt/far/near/deep/log.db", "xfs"),
        ("/mnt/with space/log.db", "cifs"),
        ("/mnt/m\u00e4rz/log.db", "fuse.sshfs"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_its_nearest_mount(path: str, kind: str) -> None:
    assert file_system_of(Path(path), MOUNTS) == kind


def test_a_network_file_system_is_refused_by_name_before_anything_is_made(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/export {tmp_path}/far nfs rw 0 0\n")
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far")
    for folder in ("far", "link"):
        path = tmp_path / folder / "deeper" / NAME
        with pytest.raises(LogError) as raised:
            Database(path, mounts=mounts)
        assert code_of(raised.value) == "network-file-system"
        assert not path.parent.exists()
    Database(tmp_path / "near" / NAME, mounts=mounts).close()


def locks_on(path: Path) -> set[str]:
    lines = Path("/proc/locks").read_text().splitlines()
    return {line.split(":", 1)[1] for line in lines if f":{path.stat().st_ino} " in line}


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs /proc/locks, which only Linux has")
def test_looking_at_a_file_does_not_drop_the_locks_that_this_process_holds_on_it(tmp_path: Path) -> None:
    """As POSIX has it, closing any handle of a file drops all locks of the process on it."""
    path = tmp_path / NAME
    with closing(SqliteLog(path, upkeep=False)):
        held = locks_on(path)
        opened(path)
        assert locks_on(path) == held
    assert len(held) == 1
