"""The file of offsets: what was written is read back, or nothing is."""

from __future__ import annotations

import errno
import os
import zlib
from inspect import signature
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.state.faults import Failure, at, failing_at
from tests.state.power_cut import Disk

from tidegate.errors import StateError
from tidegate.log.faultpoints import installed
from tidegate.log.positions import Position
from tidegate.state.checkpoint import Checkpoint, CheckpointFile

OLD = {"totals": Checkpoint(100, Position(sources={"in": {0: 5}}), "uid", 7), "seen": Checkpoint(None)}
NEW = {"totals": Checkpoint(200), "seen": Checkpoint(1)}

numbers = st.integers(0, 2**63 - 1)
names = st.from_regex(r"[a-zA-Z0-9._-]{1,30}", fullmatch=True)
by_partition = st.dictionaries(st.integers(0, 10_000), numbers, max_size=3)
positions = st.builds(
    Position,
    sources=st.dictionaries(names, by_partition, max_size=3),
    stream_times=st.dictionaries(names, by_partition, max_size=3),
    changelogs=st.dictionaries(names, numbers, max_size=3),
    progress=st.dictionaries(names, st.text(st.characters(codec="utf-8"), max_size=20), max_size=3),
)
checkpoints = st.builds(
    Checkpoint, st.none() | numbers, st.none() | positions, st.text("0123456789abcdef", max_size=32), numbers
)


@pytest.fixture
def file(tmp_path: Path) -> CheckpointFile:
    return CheckpointFile(tmp_path / "checkpoint")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@settings(deadline=None, max_examples=30)
@given(st.lists(st.dictionaries(names, checkpoints, max_size=4), min_size=1, max_size=2))
def test_what_was_written_last_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, writes: list[dict[str, Checkpoint]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    for written in writes:
        CheckpointFile(folder / "checkpoint").write(written)
        assert CheckpointFile(folder / "checkpoint").read() == written
    assert [path.name for path in folder.iterdir()] == ["checkpoint"]


def test_without_a_file_every_store_is_unknown(file: CheckpointFile) -> None:
    assert file.read() == {}


def test_a_known_store_with_nothing_written_yet_is_not_an_unknown_one(file: CheckpointFile) -> None:
    file.write({"seen": Checkpoint(None)})
    assert file.read() == {"seen": Checkpoint(None)}
    assert "other" not in file.read()
    file.write({})
    assert file.read() == {}


def test_a_deleted_file_makes_every_store_unknown(file: CheckpointFile) -> None:
    file.write(OLD)
    file.delete()
    file.delete()
    assert file.read() == {}


@pytest.mark.parametrize("step", ["checkpoint.sync", "checkpoint.rename"])
def test_a_write_that_is_cut_off_keeps_the_old_file(file: CheckpointFile, step: str) -> None:
    file.write(OLD)
    with pytest.raises(Failure), installed(failing_at(step)):
        file.write(NEW)
    assert file.read() == OLD
    file.write(NEW)
    assert file.read() == NEW


@pytest.mark.parametrize("step", ["checkpoint.sync", "checkpoint.rename"])
@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, "disk-full"), (errno.EIO, "state-io")])
def test_a_disk_that_fails_is_reported_by_name_and_keeps_the_old_file(
    file: CheckpointFile, step: str, number: int, code: str
) -> None:
    def fail() -> None:
        raise OSError(number, "the disk says no")

    file.write(OLD)
    with pytest.raises(StateError) as error, installed(at(step, fail)):
        file.write(NEW)
    assert (error.value.code, error.value.retryable) == (code, True)
    assert file.read() == OLD


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    (tmp_path / "task").mkdir()
    return Disk(tmp_path / "task", tmp_path / "images")


def found_after_a_power_cut(disk: Disk) -> list[dict[str, Checkpoint]]:
    """What is read from each folder that may be left."""
    return [CheckpointFile(image / "checkpoint").read() for image in disk.after_a_power_cut()]


def test_what_was_written_outlives_a_power_cut(disk: Disk, tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "task" / "checkpoint", disk.fsync)
    file.write(OLD)
    assert found_after_a_power_cut(disk) == [OLD] * 6, "the first file, with its name"
    file.write(NEW)
    assert found_after_a_power_cut(disk) == [NEW] * 6
    assert signature(CheckpointFile).parameters["fsync"].default is os.fsync


@pytest.mark.parametrize("step", ["checkpoint.sync", "checkpoint.rename", "checkpoint.folder"])
def test_a_power_cut_within_a_write_leaves_the_old_file_or_the_new_one(
    disk: Disk, tmp_path: Path, step: str
) -> None:
    file = CheckpointFile(tmp_path / "task" / "checkpoint", disk.fsync)
    file.write(OLD)
    with pytest.raises(Failure), installed(failing_at(step)):
        file.write(NEW)
    found = found_after_a_power_cut(disk)
    assert OLD in found
    assert all(one in (OLD, NEW) for one in found)


def test_a_deleted_file_does_not_come_back_after_a_power_cut(disk: Disk, tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "task" / "checkpoint", disk.fsync)
    file.write(OLD)
    file.delete()
    assert found_after_a_power_cut(disk) == [{}] * 6


@pytest.mark.parametrize("sync", [1, 2], ids=["file", "folder"])
def test_a_sync_that_fails_is_an_error_by_name(path: Path, sync: int) -> None:
    calls = 0

    def fail(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls == sync:
            raise OSError(errno.EIO, "the disk says no")
        os.fsync(handle)

    with pytest.raises(StateError) as error:
        CheckpointFile(path, fail).write(NEW)
    assert error.value.code == "state-io"


def test_half_a_draft_that_a_crash_left_is_not_read(file: CheckpointFile, path: Path) -> None:
    file.write(OLD)
    path.with_name("checkpoint.tmp").write_bytes(b"tidegate-checkpoint 1\n9")
    assert file.read() == OLD
    file.write(NEW)
    assert file.read() == NEW


def test_every_shorter_file_is_refused(file: CheckpointFile, path: Path) -> None:
    file.write(OLD)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert refused(file) in ("bad-checkpoint", "unknown-format"), length


def test_a_flipped_bit_in_any_byte_is_refused(file: CheckpointFile, path: Path) -> None:
    file.write(OLD)
    whole = path.read_bytes()
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        assert refused(file) in ("bad-checkpoint", "unknown-format"), place


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=200))
def test_garbage_is_refused(tmp_path_factory: pytest.TempPathFactory, garbage: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "garbage"
    path.write_bytes(garbage)
    assert refused(CheckpointFile(path)) in ("bad-checkpoint", "unknown-format")


@pytest.mark.parametrize(
    ("lines", "code", "word"),
    [
        (["tidegate-checkpoint 2", "0"], "unknown-format", "'2'"),
        (["tidegate-checkpoint 1", "1"], "bad-checkpoint", "1 stores, but it holds 0"),
        (
            ["tidegate-checkpoint 1", "0", '{"store":"a","offset":1}'],
            "bad-checkpoint",
            "0 stores, but it holds 1",
        ),
        (["tidegate-checkpoint 1", "2", *['{"store":"a","offset":1}'] * 2], "bad-checkpoint", "2 stores"),
        (["tidegate-checkpoint 1", "one", '{"store":"a","offset":1}'], "bad-checkpoint", "one"),
        (["tidegate-checkpoint 1", "1", '{"store":"a","offset":-1}'], "bad-checkpoint", "below 0"),
        (["tidegate-checkpoint 1", "1", '{"store":"a"}'], "bad-checkpoint", "offset"),
        (["tidegate-checkpoint 1", "1", "a 1"], "bad-checkpoint", "malformed"),
        (["tidegate-checkpoint 1"], "bad-checkpoint", ""),
        (["something else", "0"], "bad-checkpoint", ""),
    ],
    ids=[
        "version",
        "too few",
        "too many",
        "twice",
        "count",
        "negative",
        "no offset",
        "no json",
        "short",
        "head",
    ],
)
def test_a_whole_file_with_wrong_contents_is_refused_by_name(
    file: CheckpointFile, path: Path, lines: list[str], code: str, word: str
) -> None:
    body = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(body + b"crc32 %08x\n" % zlib.crc32(body))
    with pytest.raises(StateError) as error:
        file.read()
    assert error.value.code == code
    assert word in error.value.message
    assert error.value.hint


def test_an_offset_below_zero_is_not_written(file: CheckpointFile) -> None:
    file.write(OLD)
    with pytest.raises(StateError) as error:
        file.write({"totals": Checkpoint(-1)})
    assert error.value.code == "bad-checkpoint"
    assert file.read() == OLD


def test_a_file_that_cannot_be_read_is_not_taken_for_a_missing_one(file: CheckpointFile, path: Path) -> None:
    path.mkdir()
    assert refused(file) == "state-io"


def refused(file: CheckpointFile) -> str:
    """The code of the error that reading gives."""
    with pytest.raises(StateError) as error:
        file.read()
    return error.value.code
