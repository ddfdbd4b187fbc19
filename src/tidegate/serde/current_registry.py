"""The registry in force, with one client for each that was named in this process."""

from __future__ import annotations

import os
import threading

from tidegate.errors import RegistryError
from tidegate.serde.registry import Registry
from tidegate.serde.registry_settings import registry_changes, registry_settings


def current_registry() -> Registry:
    """The registry in force. RegistryError `no-registry` if none is named."""
    found = _open.get()
    return found if found is not None else _open.make()


class _Open:
    """The clients of this process, one for each registry that was named."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, Registry] = {}
        self._changes = -1
        self._current: Registry | None = None

    def get(self) -> Registry | None:
        """The one in force, if it is open; asked for every record."""
        return self._current if self._changes == registry_changes() else None

    def make(self) -> Registry:
        with self._lock:
            changes, found = registry_changes(), registry_settings()
            if not found.get("url"):
                raise RegistryError(
                    "no-registry",
                    "a topic is written in Avro or JSON Schema, and no registry is named",
                    'name it: url = "http://registry:8081" under [registry], or TIDEGATE_REGISTRY__URL',
                )
            name = repr(sorted(found.items()))
            made = self._made.get(name) or self._made.setdefault(name, Registry(found))
            self._current, self._changes = made, changes
            return made


_open = _Open()


def _forked() -> None:
    """A connection is not shared with a child."""
    global _open  # noqa: PLW0603
    _open = _Open()


os.register_at_fork(after_in_child=_forked)
