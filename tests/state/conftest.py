"""What the tests of state share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.state.bench import Bench

MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory where there is one: a kill takes nothing from it, and syncing it costs nothing."""
    made = Path(tempfile.mkdtemp(prefix="tidegate-state-", dir=MEMORY if MEMORY.is_dir() else None))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def bench(folder: Path) -> Iterator[Bench]:
    bench = Bench(folder / "state")
    yield bench
    bench.close()
