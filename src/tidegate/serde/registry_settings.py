"""Which schema registry this process asks.

Topics are declared in modules that many processes import, so their serdes know no address. It is bound
where an app starts: by the driver, by a slot from its order, by `tidegate.connect` and by the test driver.
A process that was told nothing takes `[registry]` of the tidegate.toml it finds, and
`TIDEGATE_REGISTRY__*`. There is one registry in force at a time; the last that was named counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.config.config import load_config
from tidegate.config.sections import flat_section
from tidegate.errors import ConfigError

_NUMBERS = ("timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms", "cache.capacity")


class _Bound:
    """What is in force, and how often that changed: whoever keeps something of a registry compares it."""

    settings: dict[str, Any] | None = None
    changes = 0


def use_registry(settings: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Ask this registry from now on; None or nothing: the one that tidegate.toml and the environment name.

    Gives what was bound before, to be bound again later. Raises `ConfigError` for a secret that is not there.
    """
    named = settled_registry(settings or {}) or None
    before, _Bound.settings = _Bound.settings, named
    _Bound.changes += 1
    return before


def registry_settings() -> dict[str, Any]:
    """The settings in force; empty if there are none."""
    return _Bound.settings if _Bound.settings is not None else settled_registry(load_config().registry)


def registry_changes() -> int:
    """How often another registry was named: an answer of before may not hold any more."""
    return _Bound.changes


def settled_registry(section: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as the client takes them: dotted names, numbers as numbers, secrets in place of
    `{ env = "NAME" }`."""
    return {name: _as_number(name, value) for name, value in flat_section("registry", section).items()}


def _as_number(name: str, value: Any) -> Any:
    if name in _NUMBERS and isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise ConfigError("bad-setting", f"[registry]: {name} is no number", f"{name} = 5") from None
    return value
