"""An app with a gate goes on after an update that gave rows of the gate's own stores more fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.gate.app import EVENTS, PASSED, gated

from tidegate.clock import ManualClock
from tidegate.errors import UpgradeError
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.topics.control import write_control
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.testing import Driver
from tidegate.topology.manifest import Manifest

OLDER = (Path(__file__).parent / "older_manifest.json").read_bytes()
"""Of `gated()` over two partitions, as it was written before a gate kept totals and times of events."""


def ran_before(log: SqliteLog, manifest: bytes) -> Manifest | None:
    """Run the app, and leave this manifest of it. The one that was there."""
    with Driver(gated(), log=log, partitions=2) as driver:
        driver.gate("door").pause("ada")
        driver.send(EVENTS, "ada", 1)
        driver.run()
    written = find_manifest(log, "gated")
    with closing(log.writer("other")) as writer:
        write_control(writer, "gated", {"manifest/1": manifest}, ManualClock().now())
        writer.commit()
    return written


def test_an_app_with_a_gate_that_an_earlier_version_started_goes_on() -> None:
    with closing(SqliteLog()) as log:
        written = ran_before(log, OLDER)
        assert find_manifest(log, "gated") != written
        with Driver(gated(), log=log, partitions=2) as driver:
            driver.gate("door").resume("ada")
            driver.run()
            assert driver.by_key(PASSED) == {"ada": [1]}
        assert find_manifest(log, "gated") == written, "the next start finds what this version writes"


def other_key(known: dict[str, Any]) -> None:
    known["gates"]["door"]["key"] = "int"


def other_kind(known: dict[str, Any]) -> None:
    known["stores"]["door-held"]["kind"] = "window"


def other_rows(known: dict[str, Any]) -> None:
    known["stores"]["counted"]["value"] = {"form": "utf-8", "format": "str"}


def field_of_another_type(known: dict[str, Any]) -> None:
    fields = known["stores"]["door-index"]["value"]["type"]["$defs"]["Buffered"]["prefixItems"]
    fields[0] = {"type": "string"}


def newer_fields(known: dict[str, Any]) -> None:
    fields = known["stores"]["door-index"]["value"]["type"]["$defs"]["Buffered"]["prefixItems"]
    fields.append({"default": 0, "type": "integer"})


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (other_key, r'gate "door" \(.*\): the type of its keys is "str", was "int"'),
        (other_kind, r'store "door-held" \(.*app.py:17\): it is of kind key-value, was window'),
        (other_rows, r'store "counted" \(.*\): its values are int, were str'),
        (field_of_another_type, r'store "door-index" \(.*\): its values are of another type than they were'),
        (newer_fields, r'store "door-index" \(.*\): its values are of another type than they were'),
    ],
)
def test_another_app_is_refused_as_before(change: Callable[[dict[str, Any]], None], what: str) -> None:
    known = json.loads(OLDER)
    change(known)
    with closing(SqliteLog()) as log:
        ran_before(log, json.dumps(known).encode())
        left = find_manifest(log, "gated")
        with (
            Driver(gated(), log=log, partitions=2) as driver,
            pytest.raises(UpgradeError, match=rf"before: {what}  Do") as error,
        ):
            driver.run()
        assert error.value.code == "changed-app"
        assert find_manifest(log, "gated") == left
