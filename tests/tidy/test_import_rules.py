"""DESIGN 3: which layer may import which, held as a test."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "tidegate"
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
}
MUST_NOT_IMPORT = {
    "log/": ["state", "runtime", "spark", "app", "cli", "server"],
    "state/": ["log.sqlite", "log.kafka", "runtime", "spark", "cli", "server"],
    "serde/": ["log", "state", "runtime", "cli"],
    "runtime/": ["spark", "cli", "server", "log.sqlite", "log.kafka"],
}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def sources() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def test_engines_are_imported_in_one_place_only() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)} imports {module}"
        for path in sources()
        for module in imports(path)
        for package, places in ONLY_IN.items()
        if within(module, package) and not path.relative_to(SOURCE).as_posix().startswith(tuple(places))
    ]
    assert wrong == []


def test_layers_import_downwards_only() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)} imports {module}"
        for path in sources()
        for layer, forbidden in MUST_NOT_IMPORT.items()
        if path.relative_to(SOURCE).as_posix().startswith(layer)
        for module in imports(path)
        if any(within(module, f"tidegate.{package}") for package in forbidden)
    ]
    assert wrong == []


@pytest.mark.slow
def test_import_tidegate_loads_none_of_the_extras() -> None:
    probe = f"import sys, tidegate; print([name for name in {EXTRAS} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_extras_are_installed_so_that_the_test_above_can_fail() -> None:
    probe = f"import importlib.util; print([n for n in {EXTRAS} if importlib.util.find_spec(n) is None])"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
