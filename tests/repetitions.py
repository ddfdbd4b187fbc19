"""How often a test repeats what it does: few times in each run, many times in `make soak`.

A smaller number must still pass the same points of the code. What only finds more with more repetitions,
such as random histories, gets the larger number in the soak. Such tests carry the mark `soak`: `make soak`
runs these and no others.
"""

from __future__ import annotations

import os

import pytest

SOAK = bool(os.environ.get("TIDEGATE_SOAK"))


def repeated(usual: int, soak: int) -> int:
    return soak if SOAK else usual


def mark_soak(items: list[pytest.Item]) -> None:
    """Skip `soak(only=...)` elsewhere: the reason says why it is too long for each run. In tests that several
    folders share, the fixture `kills` has the number of repetitions."""
    for item in items:
        if "kills" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.soak)
        marker = item.get_closest_marker("soak")
        if marker is not None and "only" in marker.kwargs and not SOAK:
            item.add_marker(pytest.mark.skip(f"{marker.kwargs['only']}; make soak runs it"))
