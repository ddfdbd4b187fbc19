"""Declare what cannot be seen in the source of a function."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tidegate.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])
_ATTRIBUTE = "__tidegate_logic__"


class Logic(msgspec.Struct, frozen=True):
    """What the user declared of a function or class."""

    version: str = ""
    files: dict[str, str] = {}
    """The files that it reads, with the digests of their content."""


def logic(*, version: str = "", reads: Iterable[str] = ()) -> Callable[[F], F]:
    """Declare what the fingerprint of a function cannot see.

    `version` counts as part of the function: raise it when something changes that is not in the source, such
    as the answers of a service. The content of the files in `reads` counts as well; they are relative to the
    file of the function and must exist. With either of them, the plan no longer names the clock, the
    environment, files and so on for this function and what only it calls."""

    def declared(function: F) -> F:
        names = [reads] if isinstance(reads, str) else list(reads)
        setattr(function, _ATTRIBUTE, Logic(version, {name: _content(function, name) for name in names}))
        return function

    return declared


def logic_of(function: Any) -> Logic | None:
    """Return what was declared of a function or class, not of one that it inherits from or wraps."""
    own: Any = getattr(function, "__dict__", {})
    found = own.get(_ATTRIBUTE) if hasattr(own, "get") else None
    return found if isinstance(found, Logic) else None


def _content(function: Any, name: str) -> str:
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None) or getattr(function, "__code__", None)
    path = Path(getattr(file, "co_filename", file) or "").parent / name
    loader: Any = getattr(module, "__loader__", None)
    try:
        data = path.read_bytes() if path.is_file() else loader.get_data(str(path))
    except (OSError, AttributeError):
        raise ConfigError(
            "missing-file",
            f"{getattr(function, '__qualname__', function)} reads {name!r}, and {path} does not exist",
            "correct the name in reads=; it is relative to the file of the function",
        ) from None
    return hashlib.sha256(data).hexdigest()[:16]
