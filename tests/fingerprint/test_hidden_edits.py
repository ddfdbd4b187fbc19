"""Edits that are hard to see change the fingerprint."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.fingerprint.hidden_edits import HIDDEN
from tests.fingerprint.hidden_edits_of_late_imports import LATE
from tests.fingerprint.observe import Observed, Request

Observe = Callable[[Path, dict[str, str]], Observed]


@pytest.fixture(scope="module")
def observe() -> Iterator[Observe]:
    """Import a project elsewhere; return its fingerprint and result."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.fingerprint.observe"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        requests, answers = server.stdin, server.stdout

        def asked(folder: Path, files: dict[str, str]) -> Observed:
            requests.write(msgspec.json.encode(Request(str(folder), files)) + b"\n")
            requests.flush()
            return msgspec.json.decode(answers.readline(), type=Observed)

        yield asked
        requests.close()


EDITS = HIDDEN | LATE


@pytest.mark.parametrize("edit", EDITS)
def test_a_hidden_edit_is_a_change(tmp_path: Path, observe: Observe, edit: str) -> None:
    main, old, new = EDITS[edit]
    files = {"main.py": main} if isinstance(main, str) else main
    file, part = ("main.py", old) if isinstance(old, str) else old
    assert part in files[file]
    before = observe(tmp_path / "before", files)
    after = observe(tmp_path / "after", {**files, file: files[file].replace(part, new)})
    assert before.result != after.result, "the edit has to change the result, or it shows nothing"
    assert before.digest == before.again
    assert before.digest != after.digest
