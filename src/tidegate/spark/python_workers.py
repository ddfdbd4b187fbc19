"""The Python workers of a local session: what makes them start quickly."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "python"
_MODULE, _PATH = "spark.python.daemon.module", "spark.executorEnv.PYTHONPATH"


def daemon_conf(own: Mapping[str, Any]) -> dict[str, str]:
    """Return the conf with which workers are forked from `tidegate_daemon`. A user's own daemon stays."""
    if _MODULE in own:
        return {}
    paths = [str(FOLDER), str(own.get(_PATH, ""))]
    return {_MODULE: "tidegate_daemon", _PATH: os.pathsep.join(filter(None, paths))}
