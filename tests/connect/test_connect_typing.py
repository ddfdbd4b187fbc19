"""What the types of a connection promise is proved by a type checker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

USES = Path(__file__).with_name("typed_connect.py")


@pytest.mark.slow
def test_right_uses_type_check_and_every_wrong_use_is_an_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--warn-unused-ignores", "--cache-dir", str(tmp_path), str(USES)]
    done = subprocess.run(command, cwd=USES.parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
