"""What the commands print: text for people on one side, JSON for programs on the other.

Nothing that comes from a record or an error goes through Rich's markup: it is printed as `Text`.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TextIO

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tidegate.errors import TidegateError
from tidegate.text.render import printable, printable_json

PIPE_WIDTH = 1000
LONGEST_ERROR = 1000


def say(*parts: Text | str | tuple[str, str]) -> None:
    """One line for people. A part is text, or text with a style."""
    line = Text.assemble(*parts)
    console = stdout_console()
    if console.is_terminal:
        console.print(line, soft_wrap=True)
    else:
        typer.echo(line.plain)


def say_table(rows: Iterable[tuple[str, ...]], heading: tuple[str, ...] = ()) -> None:
    """Aligned columns."""
    table = Table.grid(padding=(0, 3, 0, 0))
    if heading:
        table.add_row(*(Text(cell, "dim") for cell in heading))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    for column in table.columns:
        column.overflow = "fold"
    stdout_console().print(table)


def say_json(value: Any) -> None:
    """One line of JSON, as UTF-8 whatever the terminal's encoding, flushed so that a pipe moves on."""
    text = printable_json(msgspec.json.encode(value).decode())
    typer.echo(text.encode() + b"\n", nl=False)


def say_error(error: TidegateError, *, json: bool) -> None:
    """The one shape of an error: a red line on stderr, or an object on stdout."""
    told = copy.copy(error)
    told.message, told.hint = shortened(error.message), shortened(error.hint)
    if json:
        say_json({"error": {name: _as_text(value) for name, value in told.as_dict().items()}})
    else:
        Console(stderr=True, highlight=False).print(Text(printable(str(told)), "red"), soft_wrap=True)


def _as_text(value: Any) -> Any:
    """Make text printable: an error may quote an argument that is not valid UTF-8."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def shortened(text: str) -> str:
    """Shorten a message: what it quotes may be megabytes long."""
    if len(text) <= LONGEST_ERROR:
        return text
    return f"{text[: LONGEST_ERROR // 2]} … {text[-LONGEST_ERROR // 2 :]}"


def note(text: str) -> None:
    """Print a line for people on stderr."""
    Console(stderr=True, highlight=False).print(Text(printable(text), "dim"), soft_wrap=True)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise to the outermost command, as every other print does; Rich would exit with 1."""
        raise BrokenPipeError


def stdout_console() -> Console:
    """For stdout: as wide as the terminal, or wide enough for a pipe."""
    return _console_of(sys.stdout, os.environ.get("FORCE_COLOR"))


@lru_cache(maxsize=1)
def _console_of(stream: TextIO, _forced: str | None) -> Console:
    """Created once: detecting the terminal takes longer than printing a line."""
    console = _Console(highlight=False, file=stream)
    return console if console.is_terminal else _Console(highlight=False, file=stream, width=PIPE_WIDTH)
