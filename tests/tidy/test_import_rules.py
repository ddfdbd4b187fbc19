"""Which package may import which, with the picture of it in docs/architecture.md.

The rules are exact: an import that is not allowed fails, and so does a permission that nothing uses.
`scripts/import_graph.py` prints the graph that is checked here.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts.import_graph import (
    LAYERS,
    Graph,
    Import,
    circles,
    edges,
    imports,
    modules,
    package,
    package_graph,
    reduction,
    room_graph,
    statements,
    upward,
)

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tidegate"
KINDS = ("top", "lazy", "typing")
EXTRAS = [
    "pyspark",
    "confluent_kafka",
    "fastapi",
    "starlette",
    "uvicorn",
    "sqlalchemy",
    "psycopg",
    "fastavro",
    "httpx2",
]
ONLY_IN = {
    "pyspark": ["spark/"],
    "confluent_kafka": ["log/kafka/", "serde/registry.py"],
    "fastavro": ["serde/avro_bytes.py"],
    "apsw": ["log/sqlite/"],
    "lmdb": ["state/"],
    "sqlalchemy": ["sinks/"],
    "psycopg": [],
}
ALLOWED = {
    "errors": "",
    "types": "",
    "clock": "types",
    "config": "errors",
    "record": "",
    "fingerprint": "errors",
    "log": "clock config errors types",
    "serde": "config errors",
    "settings": "config errors",
    "models": "errors",
    "state": "clock errors log serde types",
    "client": "errors models",
    "text": "errors serde",
    "topics": "errors log serde",
    "stores": "errors serde state",
    "topology": "errors fingerprint log serde state topics",
    "changes": "errors fingerprint topology",
    "connect": "clock config errors log models record serde topics types",
    "gate": "clock errors log record serde state stores text topology types",
    "dsl": "errors gate log models record serde state stores topics topology",
    "runtime": "changes clock errors fingerprint gate log models record serde state text "
    "topics topology types",
    "upgrade": "changes clock config errors fingerprint gate log models runtime state text topology types",
    "app": "config dsl settings stores topics topology",
    "server": "clock config connect errors gate log models runtime state text topology types upgrade",
    "load": "app config errors settings text",
    "sinks": "clock config errors log models runtime serde topics topology types",
    "spark": "clock config connect errors fingerprint load log runtime "
    "serde sinks state topics topology types upgrade",
    "tidegate": "app connect dsl errors fingerprint record serde settings spark stores topics",
    "testing": "app clock connect errors gate log models record runtime "
    "serde spark state topics topology types upgrade",
    "cli": "app changes clock config connect errors gate load log models runtime "
    "serde server sinks spark state testing text tidegate topics topology types upgrade",
}
"""Every package and every file of the package root, from the lowest layer to the highest. `tidegate` is the
package itself: what users import."""
UPWARD = {
    "app -> spark.running (lazy)",
    "app -> spark.running (typing)",
    "app -> spark.script (lazy)",
    "upgrade -> spark.recalculating (lazy)",
    "upgrade.previews -> spark.preview_frame (lazy)",
}
"""The only imports of a higher layer: `App.start` imports Spark when it is called."""
NOT_AT_THE_TOP = {
    "cli.demo.broker -> testing.broker (lazy)",
    "cli.demo.broker -> testing.broker.jars (lazy)",
    "cli.doctor -> spark.session (lazy)",
    "cli.doctor_kafka -> log.kafka.bulk (lazy)",
    "cli.doctor_kafka -> log.kafka.log (lazy)",
    "cli.doctor_kafka -> log.kafka.log (typing)",
    "cli.doctor_sinks -> sinks.database (lazy)",
    "cli.doctor_sinks -> sinks.settings (lazy)",
    "cli.on_spark -> spark.session (lazy)",
    "cli.plan_preview -> spark.recalculating (lazy)",
    "cli.plan_preview -> upgrade.difference (typing)",
    "cli.plan_preview -> upgrade.previews (typing)",
    "cli.progress_line -> upgrade.progress (lazy)",
    "cli.progress_line -> upgrade.progress (typing)",
    "cli.status_screen -> upgrade.progress (lazy)",
    "cli.run -> spark.running (lazy)",
    "cli.run -> spark.session (lazy)",
    "cli.run_events -> runtime.driver.slot_overview (typing)",
    "cli.upgrade -> spark.recalculating (lazy)",
    "cli.run_screen -> runtime.driver.slot_overview (typing)",
    "cli.serve -> server.serve (lazy)",
    "cli.serve -> server.settings (lazy)",
    "cli.serve -> server.tokens (lazy)",
    "cli.sink -> sinks.running (lazy)",
    "cli.sink -> sinks.settings (lazy)",
    "cli.sink -> sinks.settings (typing)",
    "cli.sink -> sinks.sink (typing)",
    "connect.connect -> log.location (lazy)",
    "connect.connect -> log.open (lazy)",
    "connect.connect -> log.protocol (typing)",
    "connect.connect -> serde.registry_settings (lazy)",
    "spark.running -> sinks.threads (lazy)",
    "spark.running -> sinks.threads (typing)",
    "spark.preview_frame -> upgrade.previews (typing)",
    "testing.stages -> spark.stages (lazy)",
    "testing.pytest_plugin -> app (typing)",
    "text.declared_format -> serde.avro_bytes (lazy)",
    "tidegate -> spark.frames (typing)",
    "tidegate -> spark.write (typing)",
}
"""Downward imports between packages that wait until a function is called (an extra that may be missing, or a
command that should start fast) or that are for the type checker alone."""
ROOMS = {
    "runtime": {
        "shared": "",
        "topics": "shared",
        "output": "shared",
        "operators": "shared",
        "batches": "operators output shared",
        "task": "batches operators output shared",
        "slot": "output shared task topics",
        "driver": "output shared slot task topics",
        "dead_letters": "output",
    },
}
"""The folders of a package, and `shared`: the files beside them."""
LOGS = ("log.sqlite", "log.kafka")
LOG_USERS = {"log.open", "cli.doctor_embedded", "cli.doctor_kafka", "testing.driver"}
"""Modules that import an implementation of the log; all others use the protocol."""


@pytest.fixture(scope="module")
def found() -> list[Import]:
    return list(imports(SOURCE))


def expected(table: dict[str, str]) -> dict[str, set[str]]:
    return {name: set(allowed.split()) for name, allowed in table.items()}


def differences(graph: Graph, table: dict[str, str]) -> list[str]:
    """Imports that the table does not allow, and permissions that no import uses."""
    allowed = expected(table)
    wrong = [
        str(one)
        for importer, targets in graph.items()
        for target, those in targets.items()
        if target not in allowed.get(importer, set())
        for one in those
    ]
    unused = [
        f"{importer} may import {target}, and does not"
        for importer, targets in allowed.items()
        for target in sorted(targets - set(graph.get(importer, {})))
    ]
    return sorted(wrong) + unused


def test_every_package_imports_what_the_table_allows_and_nothing_else(found: list[Import]) -> None:
    graph = package_graph(one for one in found if str(one) not in UPWARD)
    assert differences(graph, ALLOWED) == []


def test_every_package_has_a_rule_and_a_layer() -> None:
    packages = {package(module) for module in modules(SOURCE)}
    assert set(ALLOWED) == packages
    assert {name for layer in LAYERS for name in layer.split()} == packages


def test_no_package_reaches_itself_through_others(found: list[Import]) -> None:
    graph = package_graph(one for one in found if str(one) not in UPWARD)
    assert circles(edges(graph, *KINDS)) == []


def test_the_only_upward_import_is_that_of_spark_by_an_app_that_is_started(found: list[Import]) -> None:
    assert {str(one) for one in upward(found)} == UPWARD


def test_lazy_and_typing_imports_between_packages_are_listed_one_by_one(found: list[Import]) -> None:
    seen = {str(one) for one in found if one.kind != "top" and package(one.importer) != package(one.imported)}
    assert seen == UPWARD | NOT_AT_THE_TOP


@pytest.mark.parametrize("name", ROOMS)
def test_the_rooms_of_a_package_import_downwards_only(found: list[Import], name: str) -> None:
    graph = room_graph(found, name)
    assert differences(graph, ROOMS[name]) == []
    assert circles(edges(graph, *KINDS)) == []


def test_the_log_is_used_through_its_protocol(found: list[Import]) -> None:
    users = {
        one.importer for one in found if one.imported.startswith(LOGS) and not one.importer.startswith(LOGS)
    }
    assert users == LOG_USERS


def test_engines_are_imported_in_one_place_only() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)} imports {module}"
        for path in modules(SOURCE).values()
        for module, _, _ in statements(path)
        for engine, places in ONLY_IN.items()
        if module.split(".", maxsplit=1)[0] == engine
        and not path.relative_to(SOURCE).as_posix().startswith(tuple(places))
    ]
    assert wrong == []


# --- the picture --------------------------------------------------------------------------------------


def drawn(page: str, heading: str) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """The solid and the dotted arrows of the first picture below a heading."""
    section = page.split(f"\n{heading}\n", maxsplit=1)[1]
    picture = section.split("```mermaid\n", maxsplit=1)[1].split("```", maxsplit=1)[0]
    solid: set[tuple[str, str]] = set()
    dotted: set[tuple[str, str]] = set()
    for line in picture.splitlines():
        if arrow := re.fullmatch(r"\s*(\w+(?: & \w+)*) (-->|-\. \w+ \.->) (\w+(?: & \w+)*)", line):
            ends = [(a, b) for a in arrow[1].split(" & ") for b in arrow[3].split(" & ")]
            (solid if arrow[2] == "-->" else dotted).update(ends)
    return solid, dotted


def test_the_picture_of_the_layers_shows_the_imports(found: list[Import]) -> None:
    """Without the arrows that others imply: the transitive reduction."""
    graph = package_graph(one for one in found if str(one) not in UPWARD)
    solid, dotted = drawn((ROOT / "docs" / "architecture.md").read_text(), "## Layers")
    assert solid == reduction(edges(graph, *KINDS))
    assert dotted == {("app", "spark"), ("upgrade", "spark")}


def test_the_picture_of_the_rooms_shows_the_imports(found: list[Import]) -> None:
    solid, _ = drawn((ROOT / "docs" / "architecture.md").read_text(), "### Rooms of the runtime")
    assert solid == reduction(edges(room_graph(found, "runtime"), *KINDS))


# --- the script -----------------------------------------------------------------------------------------


def test_imports_are_distinguished_by_when_they_happen(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    for name in ("log/__init__", "log/names", "errors", "__init__"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "app.py").write_text(
        "from typing import TYPE_CHECKING\n"
        "from tidegate.log import names\n"
        "if TYPE_CHECKING:\n    import tidegate.errors\n"
        "def start():\n    from tidegate.log.names import app\n    from tidegate import errors\n"
    )
    assert sorted(map(str, imports(tmp_path))) == [
        "app -> errors (lazy)",
        "app -> errors (typing)",
        "app -> log.names",
        "app -> log.names (lazy)",
    ]


def test_circles_and_implied_edges_are_found() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": []}) == [["a", "b", "c"]]
    assert reduction({"a": ["b", "c"], "b": ["c"], "c": []}) == {("a", "b"), ("b", "c")}


# --- what `import tidegate` loads -----------------------------------------------------------------------


@pytest.mark.slow
def test_import_tidegate_loads_none_of_the_extras() -> None:
    probe = f"import sys, tidegate; print([name for name in {EXTRAS} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize("modules", ["tidegate.cli.main, tidegate.log.kafka.log", "tidegate.spark.running"])
def test_a_command_starts_without_pandas(modules: str) -> None:
    """pyarrow imports it for the first array that is made of a list; that takes a third of a second."""
    probe = f"import sys, {modules}; print('pandas' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


@pytest.mark.slow
def test_what_must_not_be_loaded_is_installed_so_that_the_tests_above_can_fail() -> None:
    names = [*EXTRAS, "pandas"]
    probe = f"from importlib.util import find_spec; print([n for n in {names} if find_spec(n) is None])"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
