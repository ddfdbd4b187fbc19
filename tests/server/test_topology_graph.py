"""The topology of an app as a graph."""

from __future__ import annotations

from tests.gate.app import gated
from tests.models.app import workflows
from tests.server.conftest import Client
from tests.server.test_gates import got

from tidegate import App, TableTopic, Topic
from tidegate.clock import SystemClock
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.server.topic_roles import TopicRole, topic_roles
from tidegate.server.topology_graph import topology_graph

CLOCK = SystemClock()


def test_a_gate_is_drawn_between_its_source_and_what_it_admits(client: Client, log: SqliteLog) -> None:
    prepare(gated().build(), log, CLOCK, partitions=2)
    found = got(client, "/apps/gated/topology")
    kinds = {node["kind"]: node["id"] for node in found["nodes"]}
    edges = {(one["from"], one["to"]): one for one in found["edges"]}
    assert edges[kinds["source"], kinds["gate"]]["command"] is False
    assert edges[kinds["gate status"], kinds["gate"]]["command"] is True
    assert edges[kinds["gate"], kinds["admitted"]]["topic"] == "gated-door-admitted"
    [gate] = found["gates"]
    assert gate["source"] == {"nodes": [kinds["source"]], "topics": ["events"]}
    assert (gate["node"], gate["partitions"], gate["key"]) == (kinds["gate"], 2, "str")
    source = found["nodes"][kinds["source"]]
    assert source["location"].startswith("tests/gate/app.py:")
    assert (source["topic"], source["value"], source["on_error"]) == ("events", "int", "dead-letter")
    assert "settings" not in found


def test_stream_tasks_stores_and_topics_are_named_as_elsewhere(client: Client, log: SqliteLog) -> None:
    run = prepare(gated().build(), log, CLOCK, partitions=2)
    found = got(client, "/apps/gated/topology")
    tasks = {task for one in found["subtopologies"] for task in one["tasks"]}
    assert tasks == {str(task) for _, task in run.tasks()}
    [counted] = [one for one in found["stores"] if one["store"] == "counted"]
    assert (counted["changelog"], counted["value"]) == ("gated-counted-changelog", "int")
    assert [found["nodes"][number]["kind"] for number in counted["nodes"]] == ["aggregate"]
    topics = {one["topic"]: one for one in found["topics"]}
    assert topics["gated-door-audit"]["role"] == "audit"
    assert (topics["events"]["role"], topics["passed"]["role"]) == ("source", "sink")
    assert topics["events"]["partitions"] == topics["gated-door-admitted"]["partitions"] == 2
    assert got(client, "/apps/none/topology", code=404)["error"]["code"] == "never-started"


def test_the_sources_of_a_gate_behind_other_steps_are_the_nearest_topics(log: SqliteLog) -> None:
    app = App("far")
    first, second = app.stream(Topic("a", int)), app.stream(Topic("b", int))
    keyed = first.merge(second).select_key(str).repartition("by")
    keyed.filter(bool).gate("g").to(Topic("out", int))
    manifest = prepare(app.build(), log, CLOCK, partitions=3).manifest
    found = topology_graph(manifest)
    [gate] = found["gates"]
    assert gate["source"]["topics"] == ["far-by-repartition"]
    [by] = [one for one in found["topics"] if one["topic"] == "far-by-repartition"]
    assert by["role"] == "repartition"
    assert [found["nodes"][number]["kind"] for number in by["reads"]] == ["repartition"]
    assert [found["nodes"][number]["kind"] for number in by["writes"]] == ["select_key"]


def test_a_model_has_its_topics(log: SqliteLog) -> None:
    manifest = prepare(workflows().build(), log, CLOCK, partitions=2).manifest
    [model] = topology_graph(manifest)["models"]
    assert topology_graph(manifest)["nodes"][model["node"]]["kind"] == "model"
    roles = topic_roles([manifest])
    assert roles[model["events"]] == [TopicRole(manifest.app, "model-events", model["model"])]


def test_a_topic_may_have_a_role_in_each_app(log: SqliteLog) -> None:
    middle = Topic("middle", int)
    one, two = App("one"), App("two")
    one.stream(Topic("first", int)).to(middle)
    two.stream(middle).count("n").to(TableTopic("last", int))
    roles = topic_roles(prepare(app.build(), log, CLOCK, partitions=1).manifest for app in (one, two))
    assert roles["middle"] == [TopicRole("one", "sink"), TopicRole("two", "source")]
    assert roles["two-n-changelog"] == [TopicRole("two", "changelog", "n")]
    assert roles["one-control"] == [TopicRole("one", "control")]
