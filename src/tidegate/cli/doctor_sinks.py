"""What `tidegate doctor` checks for each section [sinks.NAME]: settings, and that the database answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from tidegate.config.config import Config
from tidegate.errors import ConfigError


def sink_checks(config: Config) -> dict[str, Callable[[Config], str]]:
    """Return the checks by their names."""
    return {f"sink {name}": _check(name) for name in sorted(config.sinks)}


def _check(name: str) -> Callable[[Config], str]:
    def check(config: Config) -> str:
        from tidegate.sinks.settings import sink_settings

        settings = sink_settings(config, name)
        try:
            from tidegate.sinks.database import Database
        except ImportError as error:
            message = f"SQLAlchemy is not installed: {error}"
            raise ConfigError("no-database-client", message, "pip install tidegate[postgres]") from None
        with closing(Database(settings.url, config.folder)) as database:
            return f"{database.version()} at {database.shown}"

    return check
