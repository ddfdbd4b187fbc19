"""Each way to depend on other code is seen, and what is no logic is not."""

from __future__ import annotations

import decimal
import json
from pathlib import Path
from typing import Any

import pytest
from tests.fingerprint.folder import OnlyBelow, imported, write
from tests.fingerprint.ways import HELPER, WAYS

from tidegate.fingerprint import Fingerprint, Fingerprints


def observed(folder: Path, main: str, helper: str = HELPER) -> tuple[Fingerprint, Any]:
    write(folder, {"main.py": main, "helper.py": helper, "other.py": "def run(x):\n    return x * 5\n"})
    with imported(folder) as load:
        root = load("main").root
        found = Fingerprints(project=OnlyBelow(folder)).of(root)
        again = Fingerprints(project=OnlyBelow(folder)).of(root)
        assert again == found
        return found, root(3)


@pytest.mark.parametrize("way", WAYS)
def test_a_dependency_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    main, old, new = WAYS[way]
    other, helper = main, HELPER
    if old.startswith("helper:"):
        old, new = old.removeprefix("helper:"), new.removeprefix("helper:")
        assert old in helper
        helper = helper.replace(old, new)
    else:
        assert old in main
        other = main.replace(old, new)
    monkeypatch.setattr(json, "dumps", json.dumps)
    with decimal.localcontext():
        before, result = observed(tmp_path / "before", main)
        after, other_result = observed(tmp_path / "after", other, helper)
    assert result != other_result, "the edit has to change the result, or it shows nothing"
    assert before.digest != after.digest


def test_a_module_that_is_not_loaded_and_imported_by_a_computed_name_is_named(tmp_path: Path) -> None:
    found, _ = observed(
        tmp_path, "import importlib\n\ndef root(x):\n    return importlib.import_module('hel' + 'per').N\n"
    )
    assert [(one.what, one.name) for one in found.unseen] == [("dynamic", "importlib.import_module")]


def test_getattr_with_a_variable_reaches_everything(tmp_path: Path) -> None:
    main = "OTHER = 1\n\ndef root(x):\n    return getattr(x, 're' + 'al')\n"
    before, _ = observed(tmp_path / "before", main)
    after, _ = observed(tmp_path / "after", main.replace("OTHER = 1", "OTHER = 2"))
    assert before.digest != after.digest


STATE = """
import collections, logging, os, threading, time

CACHE = {}
STARTED = time.time()
HOST = os.environ.get("HOSTNAME", "") + str(os.getpid())
LOCK = threading.Lock()
log = logging.getLogger(__name__)
CLIENT = None
RECENT = collections.deque(maxlen=9)


class Config:
    made = time.time()
    seen = {}


def client():
    global CLIENT
    CLIENT = CLIENT or object()
    return CLIENT


def root(x, now=time.time()):
    client()
    RECENT.append(x)
    Config.seen[x] = x
    with LOCK:
        log.debug("%s", x)
    if x not in CACHE:
        CACHE[x] = (STARTED, HOST)
    return len(CACHE)
"""


def test_what_runs_before_leaves_no_trace_in_a_fingerprint(tmp_path: Path) -> None:
    """Caches, clients that are made at their first use, times and names of hosts are no logic."""
    write(tmp_path, {"main.py": STATE})
    with imported(tmp_path) as load:
        root = load("main").root
        before = Fingerprints(project=OnlyBelow(tmp_path)).of(root)
        root(3)
        after = Fingerprints(project=OnlyBelow(tmp_path)).of(root)
    with imported(tmp_path) as load:
        again = Fingerprints(project=OnlyBelow(tmp_path)).of(load("main").root)
    assert before == after == again
    assert {one.name for one in before.unseen} == {"os.environ", "os.getpid", "time.time"}
