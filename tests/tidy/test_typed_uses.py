"""What the types promise is proved by a type checker, in one run for all files of right and wrong uses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
USES = ("examples/typed_uses.py", "connect/typed_connect.py", "serde/typed_uses.py")


@pytest.mark.slow
def test_right_uses_have_the_right_types_and_every_wrong_use_is_an_error(tmp_path: Path) -> None:
    files = [str(TESTS / file) for file in USES]
    command = [sys.executable, "-m", "mypy", "--warn-unused-ignores", "--cache-dir", str(tmp_path), *files]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
