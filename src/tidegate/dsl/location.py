"""Find the line of the user's code that declares a step."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tidegate.topology.source_code import file_and_line

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"


def here() -> str:
    """Return the innermost line outside of this package, such as `orders.py:28`."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return file_and_line(frame.f_code.co_filename, frame.f_lineno)
