"""The commands of `tidegate` with their arguments and options, as Typer has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer

from tidegate.cli.main import app


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument or an option."""

    name: str
    """`--limit`, or the metavar of an argument: `TOPIC`."""
    is_option: bool
    default: Any
    help: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command by the words that one types: `tidegate topics send`."""

    name: str
    help: str
    parameters: tuple[Parameter, ...]

    @property
    def options(self) -> dict[str, Parameter]:
        return {one.name: one for one in self.parameters if one.is_option}

    @property
    def arguments(self) -> list[str]:
        return [one.name for one in self.parameters if not one.is_option]


def all_commands() -> list[Command]:
    return list(_commands(typer.main.get_command(app), "tidegate"))


def all_options() -> set[str]:
    return {option for command in all_commands() for option in command.options}


def _commands(command: Any, name: str) -> Iterator[Command]:
    if hasattr(command, "commands"):
        for word, inner in command.commands.items():
            yield from _commands(inner, f"{name} {word}")
    elif not command.hidden:
        shown = tuple(_parameter(one) for one in command.params if not getattr(one, "hidden", False))
        yield Command(name, command.help or "", shown)


def _parameter(one: Any) -> Parameter:
    option = one.param_type_name == "option"
    name = max(one.opts, key=len) if option else (one.metavar or one.name.upper()).strip("[].")
    return Parameter(name, option, one.default, getattr(one, "help", "") or "")
