"""docs/reference/configuration.md has every key, default, variable and flag, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import msgspec
from tests.docs.command_line import all_options
from tests.docs.reference import names, page, rows, sections, without_blocks

import tidegate
from tidegate.config.config import EXAMPLES, PREFIX, SECTIONS, Config
from tidegate.config.spark import SparkSettings
from tidegate.config.upgrade import UpgradeSettings
from tidegate.log.location import KAFKA_PARTS
from tidegate.server.settings import ServerSettings
from tidegate.sinks.settings import SinkSettings

PAGE = page("configuration")
CHAPTERS = sections(PAGE, 2)
SOURCE = Path(tidegate.__file__).parent
FROM_A_FILE_ONLY = {"hosts", "origins", "models", "tables"}
"""Lists: a variable is one text."""


def table(chapter: str) -> dict[str, list[str]]:
    """The rows of the first table of a chapter, by key."""
    return {
        names(row[0])[0]: row for row in rows(CHAPTERS[chapter]) if len(row) > 4 and row[0].startswith("`")
    }


def shown(default: Any) -> str:
    """A default as the page writes it."""
    if default is None:
        return "none"
    if isinstance(default, str):
        return default
    return str(default).lower() if isinstance(default, bool) else str(default)


def defaults(kind: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: default_of(field) for field in msgspec.structs.fields(kind)}


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    return field.default_factory() if field.default is msgspec.NODEFAULT else field.default


def check(chapter: str, known: dict[str, Any], prefix: str) -> None:
    found = table(chapter)
    assert set(found) == set(known)
    for key, row in found.items():
        assert row[2].strip("`").strip('"') == shown(known[key]), key
        variable = [] if key in FROM_A_FILE_ONLY else [f"{prefix}{key.upper()}"]
        assert names(row[3]) == variable, key


def test_every_key_at_the_top_is_on_the_page_with_its_default_and_its_variable() -> None:
    known = {name: value for name, value in defaults(Config).items() if name in EXAMPLES}
    check("Top level", {name: known[name] for name in known if name not in (*SECTIONS, "upgrade")}, PREFIX)


def test_every_key_of_upgrades_is_on_the_page_with_its_default_and_its_variable() -> None:
    check("[upgrade]", defaults(UpgradeSettings), f"{PREFIX}UPGRADE__")


def test_every_key_of_the_server_is_on_the_page_with_its_default_and_its_variable() -> None:
    check("[server]", defaults(ServerSettings), f"{PREFIX}SERVER__")


def test_every_key_of_a_sink_is_on_the_page_with_its_default_and_its_variable() -> None:
    found = table("[sinks]")
    fields = {field.name: field for field in msgspec.structs.fields(SinkSettings)}
    assert set(found) == set(fields)
    for key, row in found.items():
        required = fields[key].required
        default = None if required else default_of(fields[key])
        assert row[2].strip("`").strip('"') == shown(default), key
        variable = [] if key in FROM_A_FILE_ONLY else [f"{PREFIX}SINKS__NAME__{key.upper()}"]
        assert names(row[3]) == variable, key


def test_every_section_has_a_chapter_and_no_other() -> None:
    assert {name.strip("[]") for name in CHAPTERS if name.startswith("[")} == {*SECTIONS, "upgrade"}


def test_the_parts_of_the_kafka_section_are_on_the_page() -> None:
    found = {names(row[0])[0] for row in rows(CHAPTERS["[kafka]"])}
    assert found == {"[kafka]", *(f"[kafka.{part}]" for part in KAFKA_PARTS)}


def test_every_key_of_spark_is_on_the_page_and_no_other() -> None:
    found = table("[spark]")
    assert set(found) == set(SparkSettings.__struct_fields__)
    assert names(found["master"][2]) == [SparkSettings().master]
    assert names(found["master"][3]) == [f"{PREFIX}SPARK__MASTER"]


def test_every_flag_on_the_page_is_one_of_the_command_line() -> None:
    flags = {name for name in names(without_blocks(PAGE)) if name.startswith("--")}
    assert flags
    assert flags - all_options() == set()


def test_a_key_that_a_flag_sets_names_the_flag() -> None:
    for chapter in ("Top level", "[upgrade]", "[spark]", "[server]"):
        for key, row in table(chapter).items():
            flag = f"--{key.replace('_', '-')}"
            if flag in all_options() and key != "app":  # `--app` of `tidegate state` is another thing
                assert names(row[4]) == [flag], key


def test_every_variable_that_the_source_reads_is_on_the_page() -> None:
    read: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if _is_of_environ(node):
                children = (one for one in ast.iter_child_nodes(node) if isinstance(one, ast.Constant))
                read |= {one.value for one in children if isinstance(one.value, str)}
    assert {"TIDEGATE_HOST", "JAVA_HOME"} <= read
    assert {name for name in read if f"`{name}`" not in PAGE and not name.startswith("PYSPARK_")} == set()


def _is_of_environ(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return "environ.get" in ast.unparse(node.func) or "getenv" in ast.unparse(node.func)
    return isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("environ")


def test_the_file_that_is_shown_can_be_loaded(tmp_path: Path) -> None:
    [text] = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "tidegate.toml").write_text(text)
    from tidegate.config.config import load_config

    config = load_config(environ={}, folder=tmp_path)
    assert (config.app, config.partitions) == ("orders:app", 12)
    assert [key for key in EXAMPLES if not re.search(rf"^(\[{key}|{key} =)", text, re.MULTILINE)] == []
