"""The location of a log: everything that another process or host needs to open it."""

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
        """Return the location of the configured log, or of `url` with the same sections.

        Secrets are read from the environment here, so other processes do not need the variables. Raises
        ConfigError `missing-variable`.
        """
        chosen = config.log if url is None else url
        kafka = resolved_kafka(config.kafka) if chosen.startswith("kafka:") else {}
        return LogLocation(chosen, config.folder, kafka)

    @property
    def in_memory(self) -> bool:
        """Whether only this process can see the log."""
        return self.url == "sqlite://"

    @property
    def on_one_machine(self) -> bool:
        return self.url.startswith("sqlite:")

    def __repr__(self) -> str:
        """Show the names of the Kafka settings only: their values may be secrets."""
        return f"LogLocation({without_login(self.url)!r}, {str(self.folder)!r}, kafka={sorted(self.kafka)})"


def resolved_kafka(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return [kafka] and its subsections with dotted names, and with secrets read from the environment."""
    own = {part: section[part] for part in KAFKA_PARTS if isinstance(section.get(part), Mapping)}
    general = {name: value for name, value in section.items() if name not in own}
    inner = {part: flat_section(f"kafka.{part}", values) for part, values in own.items()}
    return flat_section("kafka", general) | inner
