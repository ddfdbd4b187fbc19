"""Sections of tidegate.toml whose names are those of a client library, as that library takes them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from tidegate.errors import ConfigError


def flat_section(title: str, section: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted names, and secrets in place of `{ env = "NAME" }`; ConfigError `missing-variable`.

    TOML reads `sasl.username = "…"` without quotes as tables in tables.
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
            "set it where the app is started",
        )
    return os.environ[variable]
