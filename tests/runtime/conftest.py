"""What the tests of the driver share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.runtime.fleet import LINES, Fleet

from tidegate.log.sqlite.log import SqliteLog


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    """The word count with nothing sent yet but the line that `expected` counts too."""
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        made = Fleet(log, tmp_path)
        made.connection.send(LINES, "warm", "up")
        yield made
