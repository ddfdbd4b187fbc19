"""docs/reference/cli.md has every command with its arguments, options and defaults, and no other."""

from __future__ import annotations

import re

import pytest
from tests.docs.command_line import Command, all_commands
from tests.docs.reference import named_first, names, page, rows, sections

PAGE = page("cli")
SECTIONS = sections(PAGE, 3)
COMMANDS = {command.name: command for command in all_commands()}
SHARED = named_first(sections(PAGE, 2)["What all commands share"]) - {"0", "1", "2", "130", "141"}


def own_rows(section: str) -> dict[str, list[str]]:
    """The rows of the table of options, by option."""
    return {names(row[0])[0].split(" ")[0]: row for row in rows(section)}


def also(section: str) -> set[str]:
    """The options that all commands share, as far as this one has them."""
    lines = [line for line in section.splitlines() if line.startswith("Also: ")]
    return {name for line in lines for name in names(line)}


def shown(command: Command, option: str) -> str | None:
    """A default as a reader sees it; None for one that has to be put in words."""
    default = command.options[option].default
    if default is False or default == "":
        return ""
    if default is None:
        return None
    number = default if isinstance(default, int | float) else None
    return f"{number:g}" if number is not None else str(getattr(default, "value", default))


def test_every_command_is_on_the_page_and_no_other() -> None:
    assert set(SECTIONS) == set(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_has_all_its_options_and_no_other(name: str) -> None:
    section, command = SECTIONS[name], COMMANDS[name]
    own = set(own_rows(section))
    assert own & also(section) == set()
    assert also(section) <= SHARED
    assert own | also(section) == set(command.options)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_shows_its_arguments_in_their_order(name: str) -> None:
    [usage] = re.findall(rf"^`({name}[^`]*)`: ", SECTIONS[name], re.MULTILINE)
    assert re.findall(r"[A-Z][A-Z:]*", usage.removeprefix(name)) == COMMANDS[name].arguments


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_shows_the_defaults_of_its_options(name: str) -> None:
    wrong = {
        option: (row[1], expected)
        for option, row in own_rows(SECTIONS[name]).items()
        if (expected := shown(COMMANDS[name], option)) is not None
        and row[1].strip("`") != expected
        and expected
    }
    assert wrong == {}


def test_the_list_at_the_top_links_to_every_command() -> None:
    linked = set(re.findall(r"\]\(#([a-z-]+)\)", PAGE.partition("\n## ")[0]))
    assert linked == {name.replace(" ", "-") for name in COMMANDS}


def test_the_shared_options_are_those_of_several_commands() -> None:
    count = {option: sum(option in one.options for one in COMMANDS.values()) for option in SHARED}
    assert all(count[option] > 2 for option in SHARED)
