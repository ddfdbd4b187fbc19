"""What many commands share: options, and access to the log."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Annotated

import typer

from tidegate.config.config import Config, load_config
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.protocol import Log
from tidegate.text.render import ValueKind

JSON_KEY = "tidegate.json"
MOST = 1_000_000_000
"""The largest value of `--limit`."""


def _remember(context: typer.Context, value: bool) -> bool:
    """Remember --json for the outermost command, which reports errors."""
    context.meta[JSON_KEY] = value
    return value


LogUrl = Annotated[
    str | None, typer.Option("--log", metavar="URL", help="The log, in place of the one in tidegate.toml.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON.", callback=_remember, is_eager=True, show_default=False)
]
ValueType = Annotated[
    ValueKind | None, typer.Option("--type", help="What the values are.", show_default=False)
]
KeyType = Annotated[
    ValueKind | None, typer.Option("--key-type", help="What the keys are.", show_default=False)
]

InternalHeaders = Annotated[
    bool,
    typer.Option("--internal-headers", help="Show the headers that tidegate adds, too.", show_default=False),
]


def user_name() -> str:
    """Who runs the command, for audit records."""
    with suppress(OSError, KeyError):
        return getpass.getuser()
    return "cli"


@contextmanager
def opened(url: str | None, *, create: bool = False) -> Iterator[tuple[Log, Config]]:
    """Open the log of a command, and close it at the end. Only `create=True` creates a file."""
    config = load_config({"log": url})
    with closing(open_log(LogLocation.of(config), create=create)) as log:
        yield log, config
