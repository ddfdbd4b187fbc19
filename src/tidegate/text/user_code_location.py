"""Find the line of the user's own code that raised an error."""

from __future__ import annotations

import os
import sysconfig
import traceback
from pathlib import Path

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"
_LIBRARIES = tuple(
    f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")
)


def user_code_location(error: BaseException) -> str:
    """Return the innermost line of the user's own code, such as `orders.py:12`, else of a library's."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((_PACKAGE, "<"))
    ]
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)] or frames
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
