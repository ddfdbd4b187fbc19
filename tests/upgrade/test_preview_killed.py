"""A preview that is killed, or replaced by a newer one, leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.upgrade import versions
from tests.upgrade.stories import STORY, Killed, kill, send
from tests.upgrade.versions import PARTITIONS, all_ends
from tests.waiting import HANG_SECONDS

from tidegate import App, LogError
from tidegate.log.faultpoints import installed
from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Driver
from tidegate.testing.previews import preview_here
from tidegate.upgrade.leftovers import remove_killed_preview, remove_preview
from tidegate.upgrade.previews import Preview

ROOT = Path(__file__).parents[2]


def points(build: Callable[[int], App]) -> list[str]:
    """The fault points that a preview reaches, each as often as it does."""
    found: list[str] = []
    with Driver(build(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        with installed(found.append):
            d.preview(build(2))
    return found


OURS = ("preview.", "remove-preview.", "recalculate.")


def test_a_preview_that_was_killed_at_any_point_leaves_nothing_after_the_next_command() -> None:
    build = versions.aggregated
    reached = points(build)
    assert {point for point in reached if point.startswith(OURS)} == {
        *(f"preview.{number}" for number in range(1, 7)),
        *(f"remove-preview.{number}" for number in range(1, 4)),
        *(f"recalculate.{number}" for number in range(1, 4)),
    }
    first = {reached.index(point) for point in reached if point.startswith((*OURS, "commit.5", "driver.4"))}
    deletions = {number for number, point in enumerate(reached) if point == "remove-preview.2"}
    with Driver(build(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        before, folder = all_ends(d.log), sorted(d._folder.rglob("*"))
        expected = d.preview(build(2)).texts()
        for number in sorted(first | set(sorted(deletions)[::2])):
            with installed(kill(number)), pytest.raises(Killed):
                d.preview(build(2))
            assert set(all_ends(d.log)) >= set(before)
            if number % 2:
                remove_preview(d.log, "shop", d._folder, d.clock)
            else:
                assert d.preview(build(2)).texts() == expected
            assert (all_ends(d.log), sorted(d._folder.rglob("*"))) == (before, folder), reached[number]
        d.run()
        assert all_ends(d.log) == before


def test_a_preview_whose_process_was_killed_leaves_nothing_after_the_next_command(tmp_path: Path) -> None:
    """The kernel ends the process: no handler runs, and its transactions and locks stay as they are."""
    state = tmp_path / "state"
    with (
        closing(SqliteLog(tmp_path / "log.db")) as log,
        Driver(versions.grouped(1), partitions=PARTITIONS, log=log) as d,
    ):
        send(d, STORY)
        d.run()
        before, rows = all_ends(log), d.rows(versions.OUT)
        for point in ("preview.4", "recalculate.2", "log.commit.6", "remove-preview.2"):
            command = [sys.executable, "-m", "tests.upgrade.killed_preview", str(tmp_path), point]
            environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
            ended = subprocess.run(command, env=environ, check=False, timeout=HANG_SECONDS)
            assert ended.returncode == -signal.SIGKILL, point
            assert set(all_ends(log)) > set(before), f"{point}: it was in the middle of its work"
            remove_killed_preview(log, "shop", state, d.clock)
            assert all_ends(log) == before, point
            assert not any(state.rglob("*")), point
        d.run()
        assert (all_ends(log), d.rows(versions.OUT)) == (before, rows)


def test_a_newer_preview_ends_an_older_one_which_leaves_it_alone(tmp_path: Path) -> None:
    """The older one is in the middle of its work, and its writers are open. The newer one is in the middle of
    its own when the older one ends."""
    with Driver(versions.grouped(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        before, expected = all_ends(d.log), d.preview(versions.grouped(2)).counts
        newer: list[Thread] = []
        found: list[Preview] = []
        waits, goes_on = Event(), Event()

        def preview_again() -> None:
            found.append(preview_here(versions.grouped(2), d.log, d.clock, tmp_path, PARTITIONS, "stop"))

        def meanwhile(point: str) -> None:
            if point == "commit.2" and not newer:
                newer.append(Thread(target=preview_again))
                newer[0].start()
                assert waits.wait(HANG_SECONDS)
            elif point == "preview.4" and newer:
                waits.set()
                assert goes_on.wait(HANG_SECONDS)

        with installed(meanwhile):
            with pytest.raises(LogError) as caught:
                d.preview(versions.grouped(3))
            goes_on.set()
            newer[0].join(HANG_SECONDS)
        assert caught.value.code in ("fenced", "no-such-topic")
        assert [one.counts for one in found] == [expected]
        assert all_ends(d.log) == before
