"""How the commands print: text for people, or JSON for programs.

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


def print_line(*parts: Text | str | tuple[str, str]) -> None:
    """Print one line for people. A part is text, or text with a style."""
    line = Text.assemble(*parts)
    console = stdout_console()
    if console.is_terminal:
        console.print(line, soft_wrap=True)
    else:
        typer.echo(line.plain)


def print_table(rows: Iterable[tuple[str, ...]], heading: tuple[str, ...] = ()) -> None:
    """Print rows in aligned columns."""
    table = Table.grid(padding=(0, 3, 0, 0))
    if heading:
        table.add_row(*(Text(cell, "dim") for cell in heading))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    for column in table.columns:
        column.overflow = "fold"
    stdout_console().print(table)


def print_json(value: Any) -> None:
    """Print one line of JSON as UTF-8, whatever the terminal's encoding, and flush it."""
    text = printable_json(msgspec.json.encode(value).decode())
    typer.echo(text.encode() + b"\n", nl=False)


def print_error(error: TidegateError, *, json: bool) -> None:
    """Print an error: a red line on stderr, or an object on stdout."""
    printed = copy.copy(error)
    printed.message, printed.hint = shortened(error.message), shortened(error.hint)
    if json:
        print_json({"error": {name: _as_text(value) for name, value in printed.as_dict().items()}})
    else:
        Console(stderr=True, highlight=False).print(Text(printable(str(printed)), "red"), soft_wrap=True)


def _as_text(value: Any) -> Any:
    """Make text printable: an error may quote an argument that is not valid UTF-8."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value


def shortened(text: str) -> str:
    """Shorten a message: what it quotes may be megabytes long."""
    if len(text) <= LONGEST_ERROR:
        return text
    return f"{text[: LONGEST_ERROR // 2]} … {text[-LONGEST_ERROR // 2 :]}"


def print_note(text: str) -> None:
    """Print a line for people on stderr."""
    Console(stderr=True, highlight=False).print(Text(printable(text), "dim"), soft_wrap=True)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise, as every other print does, for the outermost command; Rich would exit with 1."""
        raise BrokenPipeError


def stdout_console() -> Console:
    """The console of stdout: as wide as the terminal, or very wide for a pipe."""
    return _console_of(sys.stdout, os.environ.get("FORCE_COLOR"))


@lru_cache(maxsize=1)
def _console_of(stream: TextIO, _forced: str | None) -> Console:
    """Created once: detecting the terminal takes longer than printing a line."""
    console = _Console(highlight=False, file=stream)
    return console if console.is_terminal else _Console(highlight=False, file=stream, width=PIPE_WIDTH)
