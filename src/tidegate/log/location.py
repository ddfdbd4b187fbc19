"""Where a log is: all that another process or host needs to open it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tidegate.config.config import Config, without_login
from tidegate.config.sections import flat_section

KAFKA_PARTS = ("producer", "consumer", "topics")


class LogLocation(msgspec.Struct, frozen=True):
    """The URL of a log, the folder that a relative path starts at, and the settings of its clients."""

    url: str
    folder: Path = Path()
    kafka: dict[str, Any] = {}

    @staticmethod
    def of(config: Config, url: str | None = None) -> LogLocation:
        """The log of the settings, or another that has their sections. Secrets are taken from the environment
        here, so that other processes need none; ConfigError `missing-variable`."""
        named = config.log if url is None else url
        kafka = settled_kafka(config.kafka) if named.startswith("kafka:") else {}
        return LogLocation(named, config.folder, kafka)

    @property
    def in_memory(self) -> bool:
        """Whether this process alone can see it."""
        return self.url == "sqlite://"

    @property
    def on_one_machine(self) -> bool:
        return self.url.startswith("sqlite:")

    def __repr__(self) -> str:
        """Settings may be secrets."""
        return f"LogPlace({without_login(self.url)!r}, {str(self.folder)!r}, kafka={sorted(self.kafka)})"


def settled_kafka(section: Mapping[str, Any]) -> dict[str, Any]:
    """[kafka] with dotted names and secrets in place, its sections of their own likewise."""
    own = {part: section[part] for part in KAFKA_PARTS if isinstance(section.get(part), Mapping)}
    general = {name: value for name, value in section.items() if name not in own}
    inner = {part: flat_section(f"kafka.{part}", values) for part, values in own.items()}
    return flat_section("kafka", general) | inner
