"""Every operator beside Kafka Streams, step by step: keys, values and times are the same, or the difference
is listed with its reason. What Kafka Streams does was recorded from its own TopologyTestDriver."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.semantics.differences import DIFFERENCES
from tests.semantics.play import Scenario, computed_now, flat, played, recorded, scenarios
from tests.semantics.topologies import TOPOLOGIES

from tidegate import App, JavaInteger, JavaLong, TidegateError, Topic
from tidegate.log.partitioner import partition_for
from tidegate.log.records import Row, to_batch
from tidegate.testing import Driver
from tidegate.testing.broker.jars import POM
from tidegate.types import TopicPartition

ALL = scenarios()
KAFKA = recorded()
PAGE = (Path(__file__).parents[2] / "docs" / "kafka-streams.md").read_text()
each = pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
paths = pytest.mark.parametrize("batches", [True, False], ids=["whole batches", "record by record"])


@each
def test_each_step_sends_what_kafka_streams_sends_or_what_is_listed(scenario: Scenario) -> None:
    theirs = KAFKA["scenarios"][scenario.name]
    _, expected = DIFFERENCES.get(scenario.name, ("", theirs))
    assert played(scenario, batches=True) == expected


@paths
@pytest.mark.parametrize(
    "scenario", [one for one in ALL if len(one.topics) == 1], ids=lambda scenario: scenario.name
)
def test_all_steps_at_once_send_the_same_records(scenario: Scenario, batches: bool) -> None:
    """With one source topic the order is that of the steps, however many records are taken at once."""
    theirs = KAFKA["scenarios"][scenario.name]
    _, expected = DIFFERENCES.get(scenario.name, ("", theirs))
    found = played(scenario, batches=batches, at_once=True)
    if ["error", "null-key"] in flat(expected):
        assert found == [[["error", "null-key"]]], "a commit is all or nothing"
    else:
        assert found == [_in_order(flat(expected), flat(found))]


def _in_order(expected: list[list[object]], found: list[list[object]]) -> list[list[object]]:
    """Behind an internal topic only the records of one key keep their order."""
    assert sorted(map(repr, expected)) == sorted(map(repr, found))
    keys = [record[0] for record in found]
    by_key = {key: iter([record for record in expected if record[0] == key]) for key in keys}
    return [next(by_key[key]) for key in keys]


def test_every_scenario_is_recorded_and_every_difference_is_one() -> None:
    names = [scenario.name for scenario in ALL]
    assert list(KAFKA["scenarios"]) == names
    assert f"{len(names)} small scenarios" in PAGE
    assert {scenario.topology for scenario in ALL} == set(TOPOLOGIES)
    for name, (reason, expected) in DIFFERENCES.items():
        assert KAFKA["scenarios"][name] != expected, f"{name} does not differ"
        assert f"### {reason}\n" in PAGE, reason


def test_the_example_of_the_page_counts_words() -> None:
    names: dict[str, Any] = {}
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "kafka-streams.md", "exec"), names)  # noqa: S102 - our own page
    with Driver(names["app"]) as d:
        d.send(names["LINES"], "a", "the tide, the gate")
        d.run()
        assert d.rows(names["COUNTS"]) == {"the": 2, "tide": 1, "gate": 1}


def test_keys_of_java_numbers_go_where_java_sends_them() -> None:
    for name, partition in KAFKA["partitions of 7"].items():
        kind, number = name.split()
        serde = {"Long": JavaLong(), "Integer": JavaInteger()}[kind]
        assert partition_for(serde.encode(int(number)), 7) == partition, name


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize(("key", "value", "code"), [(b"a", None, "null-value"), (None, b"x", "null-key")])
def test_a_null_in_a_topic_of_events_stops_by_name_or_meets_the_policy(
    batches: bool, key: bytes | None, value: bytes | None, code: str
) -> None:
    events = Topic("in", str)
    for policy, stops in (("stop", True), ("skip", False)):
        app = App("nulls")
        app.stream(events).count("made")
        with Driver(app, batches=batches, on_error=policy) as d:  # type: ignore[arg-type]
            d.run()
            for row in (Row(b"a", b"x", 10), Row(key, value, 20), Row(b"a", b"y", 30)):
                d.log.append(TopicPartition("in", 0), to_batch([row]))
            if stops:
                with pytest.raises(TidegateError) as caught:
                    d.run()
                assert caught.value.code == code
            else:
                d.run()
                assert d.store("made").contents == {"a": 2}


@pytest.mark.slow
@pytest.mark.usefixtures("java_programs")
def test_kafka_streams_still_does_what_was_recorded(tmp_path: Path) -> None:
    """Recorded by `python -m tests.semantics.record`, with the version that tests use."""
    found = computed_now(tmp_path)
    assert f"<kafka.version>{found['kafka']}</kafka.version>" in POM.read_text()
    for name, steps in found["scenarios"].items():
        assert KAFKA["scenarios"].get(name) == steps, name
    assert found == KAFKA
