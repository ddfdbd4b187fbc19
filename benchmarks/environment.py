"""The environment of programs that a benchmark starts: they find the same modules, wherever they run."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def of_programs() -> dict[str, str]:
    """Return this process's environment, with its module path."""
    paths = os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths}
