"""Find the line of the user's code that declares a step."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"


def here() -> str:
    """Return the innermost line outside of this package, such as `orders.py:28`."""
    frame = _users_frame()
    return _file_and_line(frame.f_code.co_filename, frame.f_lineno)


def module_here() -> str:
    """Return the name of the innermost module outside of this package."""
    name: str = _users_frame().f_globals.get("__name__", "")
    return name


def _users_frame() -> FrameType:
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame


def _file_and_line(file: str, line: int) -> str:
    """Return `orders.py:28`, relative to the working folder if the file is below it."""
    path = Path(file)
    try:
        shown = path.relative_to(Path.cwd()).as_posix()
    except (ValueError, OSError):
        shown = path.name
    return f"{shown}:{line}"
