"""tidegate beside the real Kafka Streams: on the same random records, on the same broker, both end with equal
tables; each reads what the other wrote; and what passes through is left alone."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.kafka.clients import Draft, Message, create, read, send
from tests.kafka.streams.draws import KEYS, drawn, name, number, word
from tests.kafka.streams.oracle import Oracle
from tests.kafka.streams.tidegate_app import LONG, tidegate_app

from tidegate import App, TableTopic
from tidegate.clock import ManualClock, SystemClock
from tidegate.connect.connection import Connection
from tidegate.log.kafka.log import KafkaLog
from tidegate.log.names import HEADER_PREFIX
from tidegate.log.partitioner import partition_for
from tidegate.testing import Driver
from tidegate.testing.broker import KafkaCluster

pytestmark = pytest.mark.usefixtures("java_programs")
PARTITIONS, RECORDS = 3, 600
INPUTS = {
    "words": drawn(1, RECORDS, word),
    "numbers": drawn(2, RECORDS, number, tombstones=0),
    "left": drawn(3, RECORDS, name, lane=1, tombstones=0.3),
    "right": drawn(4, RECORDS, name, lane=2, tombstones=0.3),
}
TOPOLOGIES = {
    "filter": ["words"],
    "count": ["words"],
    "aggregate": ["numbers"],
    "table-table": ["left", "right"],
    "stream-table": ["left", "right"],
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the two sides wrote, each to a topic of its own."""

    ours: list[Message]
    theirs: list[Message]


class Place:
    """Topics with the same records for all tests of this file, and Kafka Streams at work on them.

    The oracles start together: a JVM takes seconds, and waits for most of them.
    """

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.prefix = f"o{uuid.uuid4().hex[:8]}-"
        self._folder = folder
        self._stack = ExitStack()
        self._found: dict[str, Outcome] = {}
        outputs = [f"{topology}-{side}" for topology in TOPOLOGIES for side in ("ours", "theirs")]
        for topic in [*INPUTS, *outputs, "reader-theirs"]:
            create(bootstrap, self.topic(topic), PARTITIONS, cleanup_policy="compact")
        for topic, drafts in INPUTS.items():
            send(bootstrap, self.topic(topic), drafts)
        self.log = self._stack.enter_context(closing(KafkaLog(bootstrap)))
        self.oracles = {one: self._oracle(one, one, inputs) for one, inputs in TOPOLOGIES.items()}
        self.reader = self._oracle("reader", "table-table", ["filter-ours", "table-table-ours"])

    def topic(self, name: str) -> str:
        return self.prefix + name

    def outcome(self, topology: str) -> Outcome:
        """Run tidegate too, and wait for both; what is there already is looked up."""
        if topology not in self._found:
            inputs = [self.topic(topic) for topic in TOPOLOGIES[topology]]
            output = self.topic(f"{topology}-ours")
            self.run(tidegate_app(topology, self.topic(f"our-{topology}"), inputs, output))
            self.oracles[topology].catch_up()
            self.oracles[topology].kill()
            theirs = read(self.bootstrap, self.topic(f"{topology}-theirs"))
            self._found[topology] = Outcome(read(self.bootstrap, output), theirs)
        return self._found[topology]

    def run(self, app: App, *, batches: bool = True) -> None:
        """Two slots, to the end of what there is."""
        clock = ManualClock(SystemClock().now())  # a broker has a clock of its own
        with Driver(
            app, partitions=PARTITIONS, slots=2, log=self.log, batches=batches, clock=clock
        ) as driver:
            driver.run()
            driver.assert_stores_match_changelogs()

    def close(self) -> None:
        self._stack.close()

    def _oracle(self, name: str, topology: str, inputs: list[str]) -> Oracle:
        topics, output = [self.topic(topic) for topic in inputs], self.topic(f"{name}-theirs")
        app, folder = self.topic(f"their-{name}"), self._folder / name
        return self._stack.enter_context(Oracle(self.bootstrap, topology, app, topics, output, folder))


@pytest.fixture(scope="module")
def place(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with closing(Place(kafka.bootstrap, tmp_path_factory.mktemp("oracles"))) as made:
        yield made


def rows(found: list[Message]) -> dict[bytes | None, bytes]:
    """Key -> newest value; tombstones left out."""
    last = {message.key: message.value for message in found}
    return {key: value for key, value in last.items() if value is not None}


def histories(found: list[Message]) -> dict[bytes | None, list[tuple[bytes | None, int]]]:
    """All that was written for a key: values with their times. Kafka Streams deletes rows of a join also
    where there was none; these are left out."""
    by_key: dict[bytes | None, list[tuple[bytes | None, int]]] = {}
    for message in found:
        history = by_key.setdefault(message.key, [(None, 0)])
        if message.value is not None or history[-1][0] is not None:
            history.append((message.value, message.timestamp))
    return by_key


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_both_end_with_equal_tables(place: Place, topology: str) -> None:
    found = place.outcome(topology)
    assert rows(found.ours) == rows(found.theirs)
    assert len(rows(found.ours)) > 5


@pytest.mark.parametrize("topology", ["filter", "aggregate", "table-table", "stream-table"])
def test_both_write_the_same_history_of_each_key(place: Place, topology: str) -> None:
    """Where records of a key come from one partition, the order and the times are given, too."""
    found = place.outcome(topology)
    theirs = histories(found.theirs)
    assert histories(found.ours) == {key: history for key, history in theirs.items() if len(history) > 1}


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_both_put_a_key_into_the_same_partition(place: Place, topology: str) -> None:
    found = place.outcome(topology)
    mine, theirs = ({one.key: one.partition for one in side} for side in (found.ours, found.theirs))
    assert mine == {key: theirs[key] for key in mine}
    assert mine.keys() >= rows(found.theirs).keys()
    assert set(mine.values()) == set(range(PARTITIONS))


def test_the_input_lies_elsewhere_than_java_would_put_it(place: Place) -> None:
    """Else the same partitions behind it would say nothing."""
    found = read(place.bootstrap, place.topic("words"))
    assert any(one.partition != partition_for(one.key or b"", PARTITIONS) for one in found)


def test_kafka_streams_reads_a_table_that_tidegate_wrote(place: Place) -> None:
    left, right = rows(place.outcome("filter").ours), rows(place.outcome("table-table").ours)
    place.reader.catch_up()
    expected = {key: left[key] + b"|" + right[key] for key in left.keys() & right.keys()}
    assert rows(read(place.bootstrap, place.topic("reader-theirs"))) == expected
    assert len(expected) > 5


def test_tidegate_reads_a_table_and_a_changelog_that_kafka_streams_wrote(place: Place) -> None:
    written = rows(place.outcome("count").theirs)
    table = TableTopic(place.topic("count-theirs"), LONG)
    changelog = TableTopic(place.topic("their-count-counts-changelog"), LONG)
    both_topic = TableTopic(place.topic("both"), str)
    app = App(place.topic("our-reader"))
    app.table(table).join(app.table(changelog), lambda one, two: f"{one}|{two}").to(both_topic)
    place.run(app)
    expected = {key.decode(): LONG.decode(value) for key, value in written.items() if key is not None}
    connection = Connection(place.log, owned=False)
    assert connection.rows(changelog) == connection.rows(table) == expected
    assert connection.rows(both_topic) == {key: f"{count}|{count}" for key, count in expected.items()}


@pytest.mark.parametrize("batches", [True, False], ids=["whole-batches", "record-by-record"])
def test_headers_times_and_tombstones_pass_untouched(place: Place, batches: bool) -> None:
    source, output = (place.topic(f"{name}-{batches}") for name in ("untouched", "passed"))
    headers: tuple[tuple[str, bytes | None], ...] = (
        ("trace", b"\x00\xff"),
        ("trace", b"again"),
        ("empty", b""),
        ("null", None),
        ("größe", "ß".encode()),
    )
    sent = [
        Draft(key, b"" if at % 5 == 0 else value, at, headers[: number % 6])
        for number, (key, value, at, _) in enumerate(drawn(5, 300, name))
    ]
    for topic in (source, output):
        create(place.bootstrap, topic, PARTITIONS, cleanup_policy="compact")
    send(place.bootstrap, source, sent)
    app = App(place.topic(f"our-passing-{batches}"))
    app.stream(TableTopic(source, bytes)).filter(lambda _: True).to(TableTopic(output, bytes))
    place.run(app, batches=batches)
    arrived = read(place.bootstrap, output)
    assert {one.key: one.partition for one in arrived} == {
        key: partition_for(key, PARTITIONS) for key in KEYS
    }
    for key in KEYS:
        before = [tuple(draft[1:]) for draft in sent if draft.key == key]
        after = [(one.value, one.timestamp, own(one)) for one in arrived if one.key == key]
        assert after == before


def own(message: Message) -> tuple[tuple[str, bytes | None], ...]:
    """The headers without ours, which come last."""
    names = [name for name, _ in message.headers]
    ours = [name for name in names if name.startswith(HEADER_PREFIX)]
    assert ours
    assert names[-len(ours) :] == ours
    return message.headers[: -len(ours)]
