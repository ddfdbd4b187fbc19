"""A sink whose process is killed at any of its steps, again and again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.repetitions import SOAK
from tests.sinks.app import shop
from tests.sinks.conftest import MakeCopies
from tests.sinks.copies import change

from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Driver

ROOT = Path(__file__).parents[2]
STEPS = range(1, 8)
USUAL = list(zip(STEPS, (1, 2, 4, 1, 2, 4, 1), strict=True))
POINTS = [(step, arrival) for arrival in (1, 2, 4) for step in STEPS] if SOAK else USUAL
NEVER = ("never", 1)


class Sinks:
    """Processes of `tidegate sink`, one after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, point: str, arrival: int) -> int:
        """Run a sink until it has caught up, or is killed. Returns its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{point} {arrival}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def sinks(folder: Path) -> Iterator[Sinks]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.sinks.killed_sink"],
        cwd=folder,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Sinks(process)


AT_LENGTH = [pytest.mark.slow, pytest.mark.soak(only="takes ten seconds; a crash at each step runs always")]


@pytest.mark.parametrize(
    "place",
    [pytest.param("sqlite", marks=pytest.mark.soak), pytest.param("postgresql", marks=AT_LENGTH)],
    indirect=True,
)
def test_a_sink_whose_process_is_killed_at_any_step_applies_each_record_once(
    tmp_path: Path, place: dict[str, str], copies_of: MakeCopies
) -> None:
    """After each kill the rows are those of the position beside them; at the end they are the topic."""
    section = "".join(f'{name} = "{value}"\n' for name, value in place.items())
    (tmp_path / "tidegate.toml").write_text(
        'log = "sqlite:///log.db"\napp = "tests.sinks.app:shop"\n\n[sinks.copies]\nbatch = 3\n'
        f'models = ["workflows"]\ntables = ["customer-totals"]\n{section}'
    )
    with (
        closing(SqliteLog(tmp_path / "log.db")) as log,
        Driver(shop(), partitions=2, log=log) as d,
        sinks(tmp_path) as killed,
    ):
        copies = copies_of(d)
        change(d, 0, count=4)
        assert killed.run(*NEVER) == 0
        for number, (step, arrival) in enumerate(POINTS, 1):
            change(d, number, count=24)
            expected = 0 if step == 1 and arrival > 1 else -signal.SIGKILL  # one poll has it all
            assert killed.run(f"sink.{step}", arrival) == expected
            copies.check_positions()
        assert killed.run(*NEVER) == 0
        copies.check()
        assert copies.catch_up().counts.records == 0
