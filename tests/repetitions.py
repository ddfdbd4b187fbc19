"""How often a test repeats what it does: few times in each run, many times in `make soak`.

A smaller number must still pass the same points of the code. What only finds more with more repetitions,
such as random histories, gets the larger number in the soak.
"""

from __future__ import annotations

import os

SOAK = bool(os.environ.get("TIDEGATE_SOAK"))


def repeated(usual: int, soak: int) -> int:
    return soak if SOAK else usual
