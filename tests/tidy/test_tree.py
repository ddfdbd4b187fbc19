"""Rules about the tree itself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import tidegate
import tidegate.models
import tidegate.testing

ROOT = Path(__file__).parents[2]
LONGEST_FILE = 400


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def test_no_file_outgrows_its_idea() -> None:
    files = tracked("*.py", "*.ts", "*.tsx")
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in files}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_the_exported_names_are_these() -> None:
    assert sorted(tidegate.__all__) == EXPORTED
    assert sorted(tidegate.stores.__all__) == EXPORTED_BY_STORES
    assert sorted(tidegate.testing.__all__) == EXPORTED_BY_TESTING
    assert sorted(tidegate.models.__all__) == EXPORTED_BY_MODELS
    for package in (tidegate, tidegate.models, tidegate.stores, tidegate.testing):
        assert [name for name in package.__all__ if not hasattr(package, name)] == []


def test_locks_carry_names_versions_and_hashes_only() -> None:
    for lock in tracked("locks/*.txt"):
        text = lock.read_text()
        assert not re.search(r"https?://|file:|@ ", text), lock.name
        entries = re.findall(r"^[a-z0-9][^\n]*", text, re.MULTILINE)
        assert entries
        assert all("==" in entry for entry in entries)
        assert text.count("--hash=sha256:") >= len(entries)


def test_the_tree_holds_no_machine_paths() -> None:
    leaks = re.compile("|".join(f"/{folder}/" for folder in ("home", "root", "work")))
    files = [path for path in tracked() if path.suffix in {".py", ".md", ".toml", ".sh", ".txt", ""}]
    found = [path.name for path in files if leaks.search(path.read_text())]
    assert found == []


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert "make test" in (ROOT / "README.md").read_text()


EXPORTED = [
    "App",
    "Avro",
    "ClientError",
    "ConfigError",
    "Context",
    "FencedError",
    "JavaInteger",
    "JavaLong",
    "Json",
    "JsonSchema",
    "LogError",
    "MsgPack",
    "Processor",
    "Record",
    "RegistryError",
    "Secret",
    "Serde",
    "SerdeError",
    "Settings",
    "StateError",
    "Stream",
    "Table",
    "TableTopic",
    "TidegateError",
    "TimedProcessor",
    "Topic",
    "TopologyError",
    "UpgradeError",
    "UserCodeError",
    "connect",
    "logic",
    "operational",
    "read_store",
    "read_topic",
    "stores",
    "write_topic",
]

EXPORTED_BY_MODELS = ["Frame", "ModelRow", "NEVER", "Patch", "answer", "apply", "from_columns"]
EXPORTED_BY_STORES = [
    "Bound",
    "BytesStore",
    "KeyTimers",
    "KeyValueStore",
    "RawRow",
    "Session",
    "SessionStore",
    "Stamped",
    "StoreBuilder",
    "StoreContext",
    "TimestampedStore",
    "Token",
    "UserStore",
    "WindowStore",
    "in_memory",
    "key_value",
    "lru",
    "session",
    "timers",
    "timestamped",
    "window",
]
EXPORTED_BY_TESTING = [
    "Commit",
    "Driver",
    "DriverFactory",
    "GateView",
    "ModelView",
    "Outcome",
    "StoreView",
    "check_reducer",
]
