"""Whether a module is being imported for the app in it: `app.run()` in that module does nothing then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_IMPORTING: ContextVar[bool] = ContextVar("tidegate_importing", default=False)


def is_importing() -> bool:
    """Whether a module with an app is being imported by its name in this context."""
    return _IMPORTING.get()


@contextmanager
def importing() -> Iterator[None]:
    """While a module is imported for the app in it."""
    token = _IMPORTING.set(True)
    try:
        yield
    finally:
        _IMPORTING.reset(token)
