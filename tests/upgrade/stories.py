"""Records for the apps of `versions`, and kills."""

from __future__ import annotations

from collections.abc import Callable

from tests.upgrade.versions import IN, MORE, NAMES, RATES, START

from tidegate.testing import Driver

Sent = tuple[int, str, int, int]
"""Which topic, key, value, time."""


def send(d: Driver, story: list[Sent]) -> None:
    """Records of all sources: (which, key, value, time)."""
    for which, key, value, time in story:
        match which:
            case 0:
                d.send(IN, key, value, timestamp=START + time)
            case 1:
                d.send(MORE, key, value, timestamp=START + time)
            case 2:
                d.send(RATES, key, value or None, timestamp=START + time)
            case _:
                d.send(NAMES, key, f"n{value}" if value else None, timestamp=START + time)


STORY = [(n % 4, f"k{n * 7 % 5}", n * 11 % 17, (n * 37) % 100) for n in range(60)]
"""Times go back and forth."""


class Killed(BaseException):
    """Stands for SIGKILL: nothing is cleaned up after it."""


def kill(at: int) -> Callable[[str], None]:
    """A hook that kills at the n-th point, and at every one after it: a killed process does not clean up."""
    left = [at]

    def hook(_: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    return hook
