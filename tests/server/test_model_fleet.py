"""Frames chain without a gap, at any server, whatever is killed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.server.model_fleet import run_fleet

from tidegate.log.sqlite.log import SqliteLog


@pytest.mark.slow
@pytest.mark.soak
def test_frames_chain_and_nobody_is_reset_while_servers_and_slots_are_killed(tmp_path: Path) -> None:
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        run_fleet(f"sqlite:///{tmp_path / 'log.db'}", log, tmp_path)
