"""Which commit the code of an app is from, so that people know what to check out to go back to it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

TIMEOUT_SECONDS = 5.0


def commit_of(module: str) -> str:
    """Return the commit of the file of a module, with `-dirty` if tracked files beside it have changed since.
    Empty if it is unknown: the file is not under version control by git, or git is not installed."""
    file = getattr(sys.modules.get(module or "__main__"), "__file__", None)
    return "" if file is None else _commit_of(Path(file).resolve())


@lru_cache(maxsize=256)
def _commit_of(file: Path) -> str:
    """Ask once for each file: the code in this process stays what it was when it was imported."""
    if _git(file, "ls-files", "--error-unmatch", "--", file.name) is None:
        return ""
    return _git(file, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*") or ""


def _git(file: Path, *arguments: str) -> str | None:
    """Return what git prints; None if it fails."""
    program = shutil.which("git")
    if program is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - with fixed arguments and the name of an imported file
            [program, "--no-optional-locks", *arguments],
            cwd=file.parent,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip()
