"""Where a log is: all that another process or host needs to open it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tidegate.config import Config, without_login


class LogPlace(msgspec.Struct, frozen=True):
    """The URL of a log, the folder that a relative path starts at, and the settings of its clients."""

    url: str
    folder: Path = Path()
    kafka: dict[str, Any] = {}

    @staticmethod
    def of(config: Config) -> LogPlace:
        return LogPlace(config.log, config.folder, config.kafka)

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
