"""Apps over HTTP: topology, tasks, numbers, health."""

from __future__ import annotations

import re

import pytest
from tests.gate.app import EVENTS, gated
from tests.server.conftest import Client
from tests.server.test_gates import got

from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.gate.formats import GateNumbers
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.topics.status import Landing, Numbers, publish_status
from tidegate.server.metrics import Family, as_text
from tidegate.testing import Driver


def numbers_of(slot: int, epoch: int, at: int, held: int, oldest: int | None) -> Numbers:
    gates = {"door": GateNumbers(2, False, held, 10 * held, oldest, 3, 1, 4, 5)}
    return Numbers(epoch, slot, at, 100, 12.5, 7, 1, 2, 1, gates=gates, null_values=9)


def samples(text: str) -> dict[str, float]:
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if line[0] != "#"
    }


def test_numbers_of_gates_and_slots(client: Client, log: SqliteLog) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    now = SystemClock().now()
    publish_status(log, "gated", numbers_of(0, 1, now, 1_000, None), now)  # of an epoch that is over
    publish_status(log, "gated", numbers_of(0, 2, now, 30, now - 60_000), now)
    publish_status(log, "gated", numbers_of(1, 2, now, 12, now - 1_000), now)
    publish_status(
        log, "gated", numbers_of(2, 2, now - 60_000, 500, None), now - 60_000
    )  # silent for a minute
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = samples(answer.text)
    gate = '{app="gated",gate="door"}'
    assert found[f"tidegate_gate_held_events{gate}"] == 542, "what a silent slot held is held still"
    assert found[f"tidegate_gate_held_bytes{gate}"] == 5420
    assert found[f"tidegate_gate_paused_keys{gate}"] == 6
    assert found[f"tidegate_gate_drained_total{gate}"] == 9
    assert found[f"tidegate_gate_stale_commands_total{gate}"] == 3
    assert found[f"tidegate_gate_refused_commands_total{gate}"] == 12
    assert found[f"tidegate_gate_beyond_max_held_total{gate}"] == 15
    assert found[f"tidegate_gate_paused{gate}"] == 0
    assert 60 <= found[f"tidegate_gate_oldest_held_seconds{gate}"] < 90
    assert found['tidegate_tasks{app="gated",slot="0",state="restoring"}'] == 1
    assert found['tidegate_tasks{app="gated",slot="2",state="running"}'] == 0
    assert found['tidegate_records_per_second{app="gated",slot="1"}'] == 12.5
    assert found['tidegate_null_values_total{app="gated",slot="1"}'] == 9
    assert found['tidegate_records_per_second{app="gated",slot="2"}'] == 0


def test_the_text_is_what_prometheus_reads() -> None:
    family = Family("x", "gauge", "An x.", [({"a": 'q"\\\n'}, 1.5), ({}, 2.0)])
    assert as_text([family]) == '# HELP x An x.\n# TYPE x gauge\nx{a="q\\"\\\\\\n"} 1.5\nx 2\n'


def test_every_line_of_metrics_is_well_formed(client: Client, log: SqliteLog) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    publish_status(log, "gated", numbers_of(0, 1, SystemClock().now(), 1, None), 1)
    comment = re.compile(r"# (HELP|TYPE) [a-z_]+ .+")
    sample = re.compile(r'[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? -?[0-9.e+-]+')
    for line in client.get("/metrics").text.splitlines():
        assert comment.fullmatch(line) or sample.fullmatch(line), line


def test_the_topology_is_the_manifest_without_settings(client: Client, log: SqliteLog) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    [app] = got(client, "/topology")["apps"]
    assert app["app"] == "gated"
    assert app["gates"]["door"]["partitions"] == 2
    assert "settings" not in app
    assert got(client, "/topology", app="none", code=404)["error"]["code"] == "never-started"


def test_tasks_show_their_positions(client: Client, log: SqliteLog, connection: Connection) -> None:
    with Driver(gated(), log=log, partitions=2) as driver:
        driver.send(EVENTS, "ada", 1)
        driver.run()
    now = SystemClock().now()
    publish_status(log, "gated", Landing(1, 0, 1, "here", 7, "m"), now)
    publish_status(log, "gated", numbers_of(0, 1, now, 0, None), now)
    connection.send(EVENTS, "ada", 2, 3)
    [app] = got(client, "/tasks")["apps"]
    assert app["lag"] == 2
    assert app["positions"]
    [slot] = app["slots"]
    assert (slot["slot"], slot["host"], len(slot["tasks"])) == (0, "here", 4)
    assert (slot["state"], slot["lag"], slot["restarts"]) == ("restoring", 2, 0)
    assert slot["numbers"]["lag"] == 7, "what the slot itself published last"


def test_an_app_whose_status_topic_is_gone_is_reported_all_the_same(client: Client, log: SqliteLog) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    log.delete("gated-status")
    [app] = got(client, "/tasks")["apps"]
    assert app["app"] == "gated"
    assert client.get("/metrics").status_code == 200


def test_health(client: Client, log: SqliteLog) -> None:
    assert got(client, "/health/live") == {"live": True}
    assert got(client, "/health/ready") == {"ready": True}


def test_a_topic_is_described_and_read(client: Client, log: SqliteLog, connection: Connection) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    connection.send(EVENTS, "ada", *range(10))
    found = got(client, "/topics/events")
    assert sum(one["end"] - one["start"] for one in found["partitions"]) == 10
    assert "events" in got(client, "/topics")["topics"]
    last = got(client, "/topics/events/records", limit="4", type="int")
    assert [one["value"] for one in last["records"]] == [6, 7, 8, 9]
    partition = last["records"][0]["partition"]
    first = got(client, "/topics/events/records", limit="4", since="0", type="int", partition=partition)
    more = got(
        client, "/topics/events/records", limit="100", at=first["next"], type="int", partition=partition
    )
    assert [one["value"] for one in first["records"] + more["records"]] == list(range(10))
    assert got(client, "/topics/events/records", at=more["next"])["records"] == []


def test_the_api_is_described(client: Client) -> None:
    described = got(client, "/openapi.json")
    assert {"/gates/{gate}/keys/{key}/pause", "/stores/{store}/{key}", "/live"} <= described["paths"].keys()


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_there_are_no_pages_with_foreign_scripts(client: Client, path: str) -> None:
    assert got(client, path, code=404)["error"]["code"] == "no-such-path"
