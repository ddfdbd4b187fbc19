"""The commands that look at a log, on a real broker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import Run, run  # noqa: F401 - a fixture

from tidegate import App, Topic, connect
from tidegate.clock import SystemClock
from tidegate.log.kafka.bulk import bulk
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.records import Row, to_batch
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.takeover import take_over
from tidegate.runtime.topics.status import Numbers, publish_status
from tidegate.server import slot_status
from tidegate.testing.broker import KafkaCluster
from tidegate.types import TopicPartition

MODULE = """
from tidegate import App, Topic

app = App("{prefix}copies")
app.stream(Topic("{prefix}in", str)).to(Topic("{prefix}out", str))
"""


@pytest.fixture
def on_kafka(run: Run, kafka: KafkaCluster, prefix: str, tmp_path: Path) -> Iterator[Run]:  # noqa: F811
    """Runs commands whose log is the broker, by tidegate.toml alone."""
    module = f"cli_{prefix.rstrip('-')}"
    (tmp_path / f"{module}.py").write_text(MODULE.format(prefix=prefix))
    (tmp_path / "tidegate.toml").write_text(f'app = "{module}:app"\nlog = "{kafka.url}"\n')
    paths = list(sys.path)
    yield run
    sys.path[:] = paths
    sys.modules.pop(module, None)


def test_topics_are_made_listed_and_described(on_kafka: Run, prefix: str) -> None:
    topic = f"{prefix}orders"
    made = on_kafka("topics", "create", topic, "--partitions", "3", "--json").json
    assert (made["created"], made["partitions"]) == (True, 3)
    assert not on_kafka("topics", "create", topic, "--json").json["created"]
    listed = on_kafka("topics", "list", "--json").json["topics"]
    assert [one["topic"] for one in listed if one["topic"] == topic] == [topic]
    assert topic in on_kafka("topics", "list").out
    found = on_kafka("topics", "describe", topic, "--json").json
    assert (found["kind"], found["history_cut"]) == ("events", False)
    assert found["config"]["retention.ms"] == "-1"
    assert [(one["start"], one["end"]) for one in found["offsets"]] == [(0, 0)] * 3
    assert "topic of events, 3 partitions" in on_kafka("topics", "describe", topic).out
    assert "[no-such-topic]" in on_kafka("topics", "describe", f"{prefix}none", code=1).err


def test_records_are_sent_and_tailed(on_kafka: Run, kafka: KafkaCluster, prefix: str) -> None:
    topic = f"{prefix}orders"
    on_kafka("topics", "create", topic)
    assert on_kafka("topics", "send", topic, "ada", "one", "two").out.startswith(f"sent 2 to {topic}")
    on_kafka("topics", "send", topic, "--key-separator", "=", stdin="bob=three\nada=four\n")
    tail = on_kafka("topics", "tail", topic, "--from-start", "--timeout", "0.5", "--json").lines
    assert [record["value"] for record in tail if record["key"] == "ada"] == ["one", "two", "four"]
    assert len(on_kafka("topics", "tail", topic, "--from-start", "--limit", "3").out.splitlines()) == 3
    with connect(kafka.url) as log:
        assert sorted(record.value for record in log.read(Topic(topic, str))) == [
            "four",
            "one",
            "three",
            "two",
        ]
    assert "[no-such-topic]" in on_kafka("topics", "send", f"{prefix}none", "k", "v", code=1).err


def test_rows_of_a_table_are_the_newest(on_kafka: Run, prefix: str) -> None:
    topic = f"{prefix}totals"
    on_kafka("topics", "create", topic, "--table")
    on_kafka("topics", "send", topic, "ada", "1", "2")
    on_kafka("topics", "send", topic, "bob", "1")
    on_kafka("topics", "send", topic, "bob", "--tombstone")
    assert [(row["key"], row["value"]) for row in on_kafka("topics", "rows", topic, "--json").lines] == [
        ("ada", "2")
    ]
    assert "[not-supported]" in on_kafka("topics", "compact", topic, code=1).err


def test_status_counts_dead_letters_and_not_the_marks_of_transactions(
    on_kafka: Run, kafka: KafkaCluster, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_status, "SILENT_SECONDS", 60.0)  # however slow this machine is
    app = App(f"{prefix}copies")
    app.stream(Topic(f"{prefix}in", str)).to(Topic(f"{prefix}out", str))
    clock = SystemClock()
    with closing(open_log(LogLocation(kafka.url))) as log:
        run = prepare(app.build(), log, clock, partitions=1)
        assert on_kafka("status", app.id, "--json").json["state"] == "never-started"
        with closing(take_over(log, app.id, 1, clock)) as claim:
            run.plan(claim, {0: [task for _, task in run.tasks()]}, {0: "here"})
        with closing(log.writer(f"{prefix}writer")) as writer:
            for _ in range(2):
                writer.append(TopicPartition(f"{app.id}-dead-letters", 0), to_batch([Row(b"k", b"v", 1)]))
                writer.commit()
        publish_status(log, app.id, Numbers(1, 0, clock.now(), 2, 1.0, 0, 2, 1, 0), clock.now())
        found = on_kafka("status", app.id, "--json").json
        assert (found["state"], found["lag"], found["tasks_running"]) == ("running", 0, 1)
        assert found["dead_letters"]["records"] == 2
        assert app.id in on_kafka("status").out


def test_a_doctor_finds_all_in_order_and_leaves_nothing(on_kafka: Run, prefix: str) -> None:
    results = {one["name"]: one for one in on_kafka("doctor", "--json").json["checks"]}
    assert [name for name, one in results.items() if one["ok"] is False] == []
    assert results["brokers"]["found"].startswith("1 of cluster ")
    assert results["transactions"]["found"] == f"a writer could be opened as '{prefix}copies.doctor.driver'"
    assert results["topics"]["found"] == f"a topic '{prefix}copies-doctor' could be created (a dry run)"
    assert results["copies"]["found"].startswith("a new topic gets 1, and a write needs 1 of them in sync")
    assert results["clocks"]["ok"] is None
    how = "in Python" if bulk().module is None else "in the compiled loops"
    assert results["records"]["found"].startswith(f"read and written {how}")
    listed = on_kafka("topics", "list", "--json").json["topics"]
    assert [one["topic"] for one in listed if one["topic"].startswith(prefix)] == []


def test_doctor_reports_what_cannot_work(on_kafka: Run, tmp_path: Path) -> None:
    settings = tmp_path / "tidegate.toml"
    settings.write_text(f'{settings.read_text()}[kafka.topics]\n"replication.factor" = 3\n')
    ran = on_kafka("doctor", code=1)
    assert "NO  topics: topic" in ran.out
    assert "[kafka.topics] sets replication.factor" in ran.out
    settings.write_text(settings.read_text().replace('"replication.factor" = 3', '"min.insync.replicas" = 2'))
    ran = on_kafka("doctor", code=1)
    assert "NO  copies: a new topic gets 1 copies, and 2 must be in sync" in ran.out


def test_doctor_makes_no_more_checks_of_a_broker_that_is_not_there(on_kafka: Run) -> None:
    ran = on_kafka("doctor", "--log", "kafka://127.0.0.1:9", code=1)
    assert "no broker answers at 127.0.0.1:9" in ran.out
    assert "transactions" not in ran.out
