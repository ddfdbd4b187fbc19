"""A power cut at any point: what was acknowledged is there, all else wholly or not at all (I1, I3, I5).

A workload runs once, over a disk that records. Then the files are built as they would lie there had the
power gone at one of the recorded cut_points: with everything that was written, or with any part of what was
not synced lost, sector by sector. Each such image must open; so the check for a damaged WAL is on trial
too: a torn one is not a damaged one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.log.faulty_vfs import Disk, FaultyVfs, Op
from tests.log.history import (
    BIG,
    TABLE,
    append,
    check_goes_on,
    check_whole,
    commit,
    create_topics,
    files_of,
    put,
)
from tests.repetitions import repeated

from tidegate.log.sqlite import upkeep
from tidegate.log.sqlite.log import SqliteLog

NAME = "log.db"
NEVER = 8
LAST = 12


@dataclass(frozen=True, slots=True)
class Recording:
    """What lay there first, and all that was done since. Notes say what was begun and acknowledged."""

    before: dict[str, bytes]
    ops: list[Op]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Commits, one of them spilled, one aborted, compaction, checkpoints, a WAL that restarts, close."""
    path = tmp_path_factory.mktemp("recorded") / NAME
    vfs = FaultyVfs()
    log = SqliteLog(path, upkeep=False, vfs=vfs.name)
    create_topics(log)
    writer = log.writer("writer")
    before = files_of(path)
    vfs.recording = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "WAL_SOFT_BYTES", 0)  # so that each compaction ends in a checkpoint
        for number in range(LAST + 1):
            if number == NEVER:
                append(writer, number)
                writer.abort()
                continue
            vfs.note(f"begin {number}")
            commit(writer, number)
            vfs.note(f"done {number}")
            if number in (6, 10):
                log.compact(TABLE)
        log.close()
    vfs.unregister()
    return Recording(before, vfs.ops)


@dataclass(frozen=True, slots=True)
class CutPoint:
    """Just before operation `at`: what is acknowledged, and what was begun."""

    at: int
    acknowledged: list[int]
    in_flight: int | None


def cut_points(recording: Recording) -> Iterator[CutPoint]:
    acknowledged: list[int] = []
    in_flight: int | None = None
    for at, op in enumerate(recording.ops):
        yield CutPoint(at, list(acknowledged), in_flight)
        if op.kind == "note":
            word, number = op.file.split()
            if word == "done":
                acknowledged.append(int(number))
            in_flight = int(number) if word == "begin" else None
    yield CutPoint(len(recording.ops), acknowledged, None)


class Player:
    """Opens the images of rising cut_points, one after the other."""

    def __init__(self, recording: Recording, folder: Path) -> None:
        self._recording = recording
        self._folder = folder
        self._disk = Disk(recording.before)
        self._at = 0
        self._vfs = FaultyVfs()
        self.opened = 0

    def check(self, point: CutPoint, lose: random.Random | None) -> list[int]:
        """Cut the power at this point, open what is left, check it, and go on with it now and then."""
        self._disk.replay(self._recording.ops[self._at : point.at])
        self._at = point.at
        self.opened += 1
        folder = self._folder / str(self.opened)
        put(folder, self._disk.image(lose))
        with closing(SqliteLog(folder / NAME, upkeep=False, vfs=self._vfs.name)) as log:
            done = check_whole(log, point.acknowledged, point.in_flight)
            if self.opened % 4 == 0:
                check_goes_on(log, done, LAST + 1)
        for file in folder.iterdir():
            file.unlink()
        return done


class _LosesAll(random.Random):
    def random(self) -> float:
        return -1.0


def at_syncs(recording: Recording) -> list[CutPoint]:
    """The cut_points just before and just after each sync."""
    found = list(cut_points(recording))
    syncs = [at for at, op in enumerate(recording.ops) if op.kind == "sync"]
    return [found[at] for at in sorted({near for at in syncs for near in (at, at + 1)})]


def test_the_workload_has_all_that_may_be_cut_in_two(recording: Recording) -> None:
    kinds = {(op.kind, op.file) for op in recording.ops}
    assert {("write", NAME), ("sync", NAME), ("write", NAME + "-wal"), ("sync", NAME + "-wal")} <= kinds
    headers = [op for op in recording.ops if op.kind == "write" and op.file != NAME and op.offset == 0]
    assert len(headers) >= 2, "the WAL never restarted"
    [spilled] = [point.at for point in cut_points(recording) if point.in_flight == BIG][:1]
    unsynced = next(at for at, op in enumerate(recording.ops[spilled:]) if op.kind == "sync")
    assert unsynced > 40, "no unsynced commits of spilled pieces"


@pytest.mark.slow
def test_every_image_at_a_sync_holds_what_was_acknowledged_and_no_part_of_anything(
    recording: Recording, tmp_path: Path
) -> None:
    player = Player(recording, tmp_path)
    for point in at_syncs(recording):
        player.check(point, None)
        player.check(point, random.Random(point.at))
    assert player.opened > 80


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(repeated(2, soak=40)))
def test_every_image_between_syncs_holds_what_was_acknowledged_and_no_part_of_anything(
    recording: Recording, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    player = Player(recording, tmp_path)
    for point in cut_points(recording):
        if rng.random() < 0.1:
            player.check(point, None if rng.random() < 0.3 else rng)
    assert player.opened > 20


def test_an_acknowledged_commit_survives_the_loss_of_all_that_was_not_synced(
    recording: Recording, tmp_path: Path
) -> None:
    player = Player(recording, tmp_path)
    for point in cut_points(recording):
        if point.at and recording.ops[point.at - 1].file.startswith("done"):
            assert player.check(point, _LosesAll()) == point.acknowledged
    assert player.opened == LAST


def test_a_new_file_is_synced_as_a_whole_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vfs = FaultyVfs()
    vfs.recording = True
    linked: list[bytes] = []
    link = os.link

    def look_and_link(draft: Path, path: Path) -> None:
        disk = Disk({})
        disk.replay(vfs.ops)
        linked.append(disk.image(_LosesAll())[draft.name])
        link(draft, path)

    # What is on disk at the instant at which the file gets its name.
    monkeypatch.setattr(os, "link", look_and_link)
    SqliteLog(tmp_path / NAME, upkeep=False, vfs=vfs.name).close()
    assert linked == [(tmp_path / NAME).read_bytes()]
