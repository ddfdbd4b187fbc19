"""The section `[sinks]` of tidegate.toml: one table `[sinks.NAME]` for each database."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from tidegate.config.config import Config, without_login
from tidegate.config.sections import flat_section
from tidegate.errors import ConfigError

Text = Annotated[str, msgspec.Meta(min_length=1)]
DEFAULT_BATCH = 5_000


class SinkSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A database, and what goes into it."""

    url: Text
    models: list[Text] = []
    tables: list[Text] = []
    """Names of table topics."""
    app: Text | None = None
    """`module:name` of the app that declares the table topics; default: `app` of tidegate.toml."""
    schema: Annotated[str, msgspec.Meta(pattern="^[A-Za-z_][A-Za-z0-9_]{0,62}$")] | None = None
    prefix: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_]{0,40}$")] = ""
    """What the names of the tables begin with."""
    batch: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = DEFAULT_BATCH
    """At most so many records of a partition are one transaction."""
    on_error: Literal["stop", "skip"] = "stop"
    """What happens with a record that cannot be a row of the database."""

    def __repr__(self) -> str:
        return f"SinkSettings({without_login(self.url)!r}, models={self.models}, tables={self.tables})"


def sink_settings(config: Config, name: str) -> SinkSettings:
    """Return the settings of one sink. Raises ConfigError: `no-such-sink`, `bad-setting`,
    `missing-variable`."""
    section = config.sinks.get(name)
    if not isinstance(section, dict):
        known = ", ".join(sorted(config.sinks)) or "none"
        raise ConfigError("no-such-sink", f"there is no section [sinks.{name}]", f"there is: {known}")
    return checked_settings(f"[sinks.{name}]", flat_section(f"sinks.{name}", section))


def checked_settings(origin: str, values: dict[str, Any]) -> SinkSettings:
    """Check the settings of a sink. A message never contains the URL."""
    try:
        settings = msgspec.convert(values, SinkSettings, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(SinkSettings.__struct_fields__)
        raise ConfigError("bad-setting", f"{origin}: {error}", f"known are: {known}") from None
    if not settings.models and not settings.tables:
        hint = 'write models = ["NAME"], or tables = ["TOPIC"]'
        raise ConfigError("bad-setting", f"{origin}: neither models nor tables are named", hint)
    return settings
