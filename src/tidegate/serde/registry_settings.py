"""The schema registry settings of this process.

Topics are declared in modules that many processes import, so their serdes have no address. It is set when an
app starts: by the driver, by a slot from its order, by `tidegate.connect` and by the test driver. A process
in which it was not set uses `[registry]` of the tidegate.toml that it finds, and `TIDEGATE_REGISTRY__*`.
There is one registry at a time; the last one that was set is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.config.config import load_config
from tidegate.config.sections import flat_section
from tidegate.errors import ConfigError

_NUMBERS = ("timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms", "cache.capacity")


class _Bound:
    """The current settings, and how often they changed: caches of a registry's answers compare the count."""

    settings: dict[str, Any] | None = None
    changes = 0


def use_registry(settings: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Use this registry from now on; None or empty: the one of tidegate.toml and the environment.

    Returns the previous settings, so that they can be set again. Raises ConfigError for a missing secret.
    """
    resolved = resolved_registry(settings or {}) or None
    before, _Bound.settings = _Bound.settings, resolved
    _Bound.changes += 1
    return before


def registry_settings() -> dict[str, Any]:
    """Return the current settings; empty if there are none."""
    return _Bound.settings if _Bound.settings is not None else resolved_registry(load_config().registry)


def registry_changes() -> int:
    """Return how often the registry was changed: earlier answers may no longer be valid."""
    return _Bound.changes


def resolved_registry(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings as the client needs them: dotted names, numbers as numbers, secrets instead of
    `{ env = "NAME" }`."""
    return {name: _as_number(name, value) for name, value in flat_section("registry", section).items()}


def _as_number(name: str, value: Any) -> Any:
    if name in _NUMBERS and isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise ConfigError("bad-setting", f"[registry]: {name} is not a number", f"{name} = 5") from None
    return value
