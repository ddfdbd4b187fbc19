"""The virtual environment of Quix Streams: made once per version of `requirements.txt`, kept in the cache.

`requirements.txt` comes from `requirements.in` with the options of `scripts/lock.sh`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from tidegate.testing.broker.jars import cache, locked

REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def python() -> Path:
    """The interpreter that can import `quixstreams`; the first call installs it."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = cache() / f"quix-{digest}"
    interpreter, ready = folder / "bin" / "python", folder / "ready"
    with locked(folder):
        if not ready.exists():  # an environment cannot be renamed, so a file says that it is whole
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            pip = [str(interpreter), "-m", "pip", "--disable-pip-version-check", "--quiet"]
            subprocess.run([*pip, "install", "--require-hashes", "-r", str(REQUIREMENTS)], check=True)
            ready.touch()
    return interpreter
