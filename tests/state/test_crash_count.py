"""A folder that ends every process that reads it is rebuilt by the fourth; sound ones are left alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from tests.state.bench import AT_EVERY_COMMIT, Bench
from tests.state.damage import damage_so_that_readers_die
from tests.state.ground import Ground
from tests.state.lives import COUNTS

from tidegate.state import manager
from tidegate.state.crash_count import STARTS

ROOT = Path(__file__).parents[2]
LIFE = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.state.ground import Ground
from tests.state.lives import COUNTS
task = Ground(Path(sys.argv[2])).bench().start(COUNTS)
print(len(task.rows(COUNTS)), flush=True)
"""


def filled(ground: Ground) -> Path:
    bench = ground.bench()
    task = bench.start(COUNTS, limits=AT_EVERY_COMMIT)
    for number in range(300):
        task.put(COUNTS, f"key-{number:03}", number)
    task.commit()
    folder = task.state.folder
    task.close()
    bench.log.close()
    assert not (folder / STARTS).exists(), "it was closed in order"
    return folder


@pytest.mark.slow
def test_a_folder_that_ended_three_processes_is_discarded_by_the_fourth(ground: Ground) -> None:
    folder = filled(ground)
    damage_so_that_readers_die(folder, b"key-150")
    command = [sys.executable, "-c", LIFE, str(ROOT), str(ground.folder)]
    ended = subprocess.run(command, capture_output=True, check=False)
    assert -ended.returncode in (signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT), ended.stderr
    assert (folder / STARTS).stat().st_size == 1
    (folder / STARTS).write_bytes(b"...")
    bench = ground.bench()
    task = bench.start(COUNTS)
    assert "three processes died with it open, and it is damaged" in task.listener.discards()["counts"]
    assert len(task.rows(COUNTS)) == 300
    task.close()
    assert not (folder / STARTS).exists()
    bench.close()


def test_a_sound_folder_is_kept_however_many_processes_died(ground: Ground) -> None:
    folder = filled(ground)
    (folder / STARTS).write_bytes(b"...")
    bench = ground.bench()
    task = bench.start(COUNTS)
    assert task.listener.discards() == {}
    assert bench.span(task, COUNTS) == (300, 300), "nothing was restored"
    assert (folder / STARTS).stat().st_size == 1, "it is not read again at each start"
    bench.close()


def test_a_task_that_is_dropped_or_works_for_a_minute_forgets_the_starts(bench: Bench) -> None:
    task = bench.start(COUNTS)
    folder = task.state.folder
    assert (folder / STARTS).stat().st_size == 1
    task.drop()
    assert not (folder / STARTS).exists(), "the process lives, whatever happened to the slot"
    with mock.patch.object(manager, "CALM_SECONDS", 0.0):  # a minute otherwise
        task = bench.start(COUNTS, limits=AT_EVERY_COMMIT)
        assert (folder / STARTS).exists()
        task.put(COUNTS, "ada", 1)
        task.commit()
        assert not (folder / STARTS).exists()
