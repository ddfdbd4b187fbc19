"""A WAL that a crash left behind: a torn end is dropped; damage further up is never passed over in silence.

It is taken from a log that is still open: a SIGKILL leaves the same bytes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.log.faulty_vfs import FaultyVfs
from tests.log.history import (
    BIG,
    PARTITIONS,
    check_goes_on,
    check_holds,
    code_of,
    commit,
    create_topics,
    expected,
    files_of,
    put,
)

from tidegate.errors import LogError
from tidegate.log.sqlite.layout import PAGE_SIZE
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.sqlite.wal_check import FRAME_BYTES, HEADER_BYTES, check_wal, checksum

NAME, WAL = "log.db", "log.db-wal"
DONE = list(range(9))
LEAD = PARTITIONS[0]


@dataclass(frozen=True, slots=True)
class Left:
    """The files as a killed process leaves them, and where in the WAL each of its transactions ends."""

    files: dict[str, bytes]
    ends: list[int]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    path = tmp_path_factory.mktemp("left") / NAME
    vfs = FaultyVfs()
    wal, ends = path.with_name(WAL), []
    with closing(SqliteLog(path, upkeep=False, vfs=vfs.name)) as log:
        create_topics(log)
        writer = log.writer("writer")
        for number in DONE:
            commit(writer, number)
            ends.append(wal.stat().st_size)
        files = files_of(path)
    assert ends[-1] == len(files[WAL])
    return Left(files, ends)


@pytest.fixture
def vfs() -> Iterator[FaultyVfs]:
    vfs = FaultyVfs()
    yield vfs
    vfs.unregister()


class Images:
    """Opens what was left, with another WAL each time."""

    def __init__(self, left: Left, folder: Path, vfs: FaultyVfs) -> None:
        self._left = left
        self._folder = folder
        self._vfs = vfs
        self._count = 0

    def open(self, wal: bytes) -> list[int] | None:
        """Which transactions are there, first to last; None if the file was refused, and left as it is."""
        self._count += 1
        folder = self._folder / str(self._count)
        put(folder, {**self._left.files, WAL: wal})
        try:
            log = SqliteLog(folder / NAME, upkeep=False, vfs=self._vfs.name)
        except LogError as error:
            code = code_of(error)
        else:
            with closing(log):
                return held(log)
        assert code == "corrupt"
        assert files_of(folder / NAME) == {**self._left.files, WAL: wal}
        return None

    def flipped(self, position: int, mask: int) -> list[int] | None:
        wal = bytearray(self._left.files[WAL])
        wal[position] ^= mask
        return self.open(bytes(wal))


def held(log: SqliteLog) -> list[int]:
    for count in range(len(DONE), -1, -1):
        if log.ends([LEAD])[LEAD] == len(expected(DONE[:count])[LEAD]):
            check_holds(log, DONE[:count])
            return DONE[:count]
    raise AssertionError("what is there is no whole number of transactions")


def test_an_unharmed_wal_is_taken_whole(left: Left, tmp_path: Path, vfs: FaultyVfs) -> None:
    assert Images(left, tmp_path, vfs).open(left.files[WAL]) == DONE


def test_a_flipped_byte_before_a_later_synced_commit_is_refused(
    left: Left, tmp_path: Path, vfs: FaultyVfs
) -> None:
    images = Images(left, tmp_path, vfs)
    rng = random.Random(1)
    frames = (left.ends[-3] - HEADER_BYTES) // FRAME_BYTES
    for frame in rng.sample(range(frames), 40):
        start = HEADER_BYTES + frame * FRAME_BYTES
        for position in (start + rng.randrange(24), start + 24 + rng.randrange(PAGE_SIZE)):
            assert images.flipped(position, 1 << rng.randrange(8)) is None, position


def test_a_flipped_byte_in_the_header_is_refused(left: Left, tmp_path: Path, vfs: FaultyVfs) -> None:
    images = Images(left, tmp_path, vfs)
    for position in range(HEADER_BYTES):
        assert images.flipped(position, 0x10) is None, position


def test_a_flipped_byte_at_the_end_costs_the_last_commits_at_most(
    left: Left, tmp_path: Path, vfs: FaultyVfs
) -> None:
    """A power cut may look the same, so it cannot be refused; but nothing is ever there in part."""
    images = Images(left, tmp_path, vfs)
    rng = random.Random(2)
    seen = set()
    for position in (rng.randrange(left.ends[-3], left.ends[-1]) for _ in range(25)):
        found = images.flipped(position, 1 << rng.randrange(8))
        if position >= left.ends[-2]:
            assert found == DONE[:-1]
        seen.add(None if found is None else len(found))
    assert seen <= {None, len(DONE) - 1, len(DONE) - 2}
    assert None in seen


def test_a_wal_that_was_cut_off_is_taken_up_to_its_last_whole_commit(
    left: Left, tmp_path: Path, vfs: FaultyVfs
) -> None:
    images = Images(left, tmp_path, vfs)
    rng = random.Random(3)
    for length in [0, 10, *left.ends, *(rng.randrange(left.ends[-1]) for _ in range(15))]:
        whole = [number for number, end in zip(DONE, left.ends, strict=True) if end <= length]
        if length >= left.ends[0]:
            assert images.open(left.files[WAL][:length]) == whole


def test_unsynced_commits_that_are_torn_together_are_no_damage(
    left: Left, tmp_path: Path, vfs: FaultyVfs
) -> None:
    """The spilled pieces of one transaction, with its own commit frame and no frame behind it."""
    wal = bytearray(left.files[WAL][: left.ends[BIG]])
    first = left.ends[BIG - 1] + 24
    wal[first : first + 512] = bytes(512)
    assert Images(left, tmp_path, vfs).open(bytes(wal)) == DONE[:BIG]
    refused = bytearray(left.files[WAL][: left.ends[BIG] + FRAME_BYTES])
    refused[first : first + 512] = bytes(512)
    assert Images(left, tmp_path / "more", vfs).open(bytes(refused)) is None


def test_a_file_that_is_refused_keeps_its_wal(tmp_path: Path, vfs: FaultyVfs) -> None:
    """Closing a connection would move it into the file; but what is refused may yet be mended by hand. No
    writer was opened, which would have put a newer page with the id into the WAL."""
    with closing(SqliteLog(tmp_path / NAME, upkeep=False, vfs=vfs.name)) as log:
        create_topics(log)
        files = files_of(tmp_path / NAME)
    assert files[WAL]
    files[NAME] = files[NAME].replace(b"log-id", b"log-if")
    put(tmp_path / "damaged", files)
    with pytest.raises(LogError, match="id") as raised:
        SqliteLog(tmp_path / "damaged" / NAME, upkeep=False, vfs=vfs.name)
    assert code_of(raised.value) == "corrupt"
    assert files_of(tmp_path / "damaged" / NAME) == files


def test_frames_of_an_older_round_behind_the_newest_are_no_damage(tmp_path: Path, vfs: FaultyVfs) -> None:
    """A WAL restarts at its beginning, and what it held before stays behind the new frames."""
    path = tmp_path / "log" / NAME
    with closing(SqliteLog(path, upkeep=False, vfs=vfs.name)) as log:
        create_topics(log)
        writer = log.writer("writer")
        for number in (0, 1, 2):
            commit(writer, number)
        log._database._reading.wal_checkpoint()
        size = path.with_name(WAL).stat().st_size
        commit(writer, 3)
        assert path.with_name(WAL).stat().st_size == size, "the WAL did not restart"
        put(tmp_path / "killed", files_of(path))
    with closing(SqliteLog(tmp_path / "killed" / NAME, upkeep=False, vfs=vfs.name)) as log:
        check_goes_on(log, [0, 1, 2, 3], 4)


def test_a_wal_is_not_checked_while_another_process_has_the_log_open(
    left: Left, tmp_path: Path, vfs: FaultyVfs
) -> None:
    wal = bytearray(left.files[WAL])
    wal[HEADER_BYTES + 100] ^= 1
    (tmp_path / WAL).write_bytes(wal)
    check_wal(tmp_path / WAL, lambda: False)
    with pytest.raises(LogError) as caught:
        check_wal(tmp_path / WAL, lambda: True)
    assert caught.value.code == "corrupt"


def test_the_checksum_is_the_one_of_sqlite_word_by_word() -> None:
    data, seed = random.Random(4).randbytes(8 * 50), (123, 2**32 - 5)
    first, second = seed
    for at in range(0, len(data), 8):
        first = (first + int.from_bytes(data[at : at + 4], "little") + second) % 2**32
        second = (second + int.from_bytes(data[at + 4 : at + 8], "little") + first) % 2**32
    assert checksum(seed, data) == (first, second)
