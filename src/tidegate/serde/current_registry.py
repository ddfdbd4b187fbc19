"""The current schema registry of this process, with one client for each registry that was configured."""

from __future__ import annotations

import os
import threading

from tidegate.errors import RegistryError
from tidegate.serde.registry import Registry
from tidegate.serde.registry_settings import registry_changes, registry_settings


def current_registry() -> Registry:
    """Return the current registry. Raises RegistryError `no-registry` if none is configured."""
    found = _open.get()
    return found if found is not None else _open.make()


class _Open:
    """The clients of this process, one for each registry that was configured."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, Registry] = {}
        self._changes = -1
        self._current: Registry | None = None

    def get(self) -> Registry | None:
        """Return the current registry if it is open; called for every record."""
        return self._current if self._changes == registry_changes() else None

    def make(self) -> Registry:
        with self._lock:
            changes, found = registry_changes(), registry_settings()
            if not found.get("url"):
                raise RegistryError(
                    "no-registry",
                    "a topic is written in Avro or JSON Schema, but no registry is configured",
                    'set url = "http://registry:8081" under [registry], or TIDEGATE_REGISTRY__URL',
                )
            name = repr(sorted(found.items()))
            made = self._made.get(name) or self._made.setdefault(name, Registry(found))
            self._current, self._changes = made, changes
            return made


_open = _Open()


def _forked() -> None:
    """Drop the clients in a forked child: connections cannot be shared with it."""
    global _open  # noqa: PLW0603
    _open = _Open()


os.register_at_fork(after_in_child=_forked)
