"""The section `[spark]` of tidegate.toml: `master`, and `conf` with Spark's own names."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from tidegate.config.sections import flat_section
from tidegate.errors import ConfigError

DEFAULT_MASTER = "local[*]"


class SparkSettings(msgspec.Struct, frozen=True):
    """Where Spark runs, and the settings of its session."""

    master: str = DEFAULT_MASTER
    conf: dict[str, str] = {}


def spark_settings(section: Mapping[str, Any]) -> SparkSettings:
    """Check the section and return its settings. Raises ConfigError: `unknown-setting`, `bad-setting`.

    TOML reads `spark.executor.memory = "4g"` without quotes as nested tables: that is the same name."""
    for name in section:
        if name not in SparkSettings.__struct_fields__:
            near = get_close_matches(name, SparkSettings.__struct_fields__, n=1)
            hint = f"did you mean {near[0]}?" if near else "use one of: master, conf"
            raise ConfigError("unknown-setting", f"[spark]: there is no setting {name!r}", hint)
    master, conf = section.get("master", DEFAULT_MASTER), section.get("conf", {})
    if not isinstance(master, str) or not master:
        raise ConfigError("bad-setting", "[spark]: master is not text", 'write master = "local[*]"')
    if not isinstance(conf, Mapping):
        raise ConfigError("bad-setting", "[spark]: conf is not a table", "write its lines below [spark.conf]")
    return SparkSettings(
        master,
        {name: _as_text(name, value) for name, value in flat_section("spark.conf", conf).items()},
    )


def _as_text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ConfigError("bad-setting", f"[spark]: {name} is not a single value", f'write "{name}" = "..."')
