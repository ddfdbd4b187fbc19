"""Named no-op hooks at the numbered steps of each protocol.

`reach("log.commit.6")` does nothing unless a test installed a hook; the hook may raise, kill the
process or just count. The numbers are those of the docstring that lists the protocol's steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Hook = Callable[[str], None]

_hook: Hook | None = None


def reach(point: str) -> None:
    """Call the installed hook, if any: the numbered step `point` is about to run."""
    if _hook is not None:
        _hook(point)


@contextmanager
def installed(hook: Hook) -> Iterator[None]:
    """Call `hook` at every point inside the block. Blocks do not nest."""
    global _hook  # noqa: PLW0603 - one process-wide hook: points are reached on any thread
    if _hook is not None:
        raise RuntimeError("a fault hook is installed already")
    _hook = hook
    try:
        yield
    finally:
        _hook = None
