"""Hooks for the numbered fault points of commit and restore."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.log.faultpoints import Hook


class Failure(Exception):  # noqa: N818 - stands for whatever may go wrong
    """Raised by a hook; nothing in the product knows it."""


def at(point: str, act: Callable[[], object], number: int = 1) -> Hook:
    """Act when a fault point is reached for the nth time. What `act` reaches itself does not count."""
    seen = 0

    def hook(reached: str) -> None:
        nonlocal seen
        if reached == point and seen < number:
            seen += 1
            if seen == number:
                act()

    return hook


def failing_at(point: str, number: int = 1) -> Hook:
    """Raise Failure when a fault point is reached for the nth time."""

    def fail() -> None:
        raise Failure(point)

    return at(point, fail, number)
