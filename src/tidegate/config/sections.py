"""Convert sections of tidegate.toml that use a client library's setting names to that library's form."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tidegate.errors import ConfigError


def flat_section(title: str, section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section with dotted names, and secrets instead of `{ env = "NAME" }`.

    Raises ConfigError `missing-variable`. TOML reads `sasl.username = "…"` without quotes as nested tables.
    """
    return {name: _secret(title, name, value) for name, value in _flat(section).items()}


def _flat(section: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in section.items():
        if isinstance(value, Mapping) and set(value) != {"env"}:
            flat |= _flat(value, f"{path}{name}.")
        else:
            flat[path + name] = value
    return flat


def _secret(title: str, name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    variable = str(value["env"])
    if variable not in os.environ:
        raise ConfigError(
            "missing-variable",
            f"[{title}] takes {name} from the variable {variable}, which is not set",
            f"set {variable} in the environment in which the app is started",
        )
    return os.environ[variable]
