"""The compiled loop reads what the loop in Python reads: on librdkafka's mock brokers."""

from __future__ import annotations

import gc
import logging
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Producer
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.log.compiled_loops import SECONDS, rows, topic
from tests.log.mock_cluster import MockCluster, mock_cluster

from tidegate.errors import LogError
from tidegate.log.kafka import bulk as bulk_module
from tidegate.log.kafka import reader as reader_module
from tidegate.log.kafka.bulk import MODULE, PLUGINS, BulkPages, bulk, checked, with_plugin
from tidegate.log.kafka.clients import Clients
from tidegate.log.kafka.pages import ClientPages
from tidegate.log.kafka.reader import KafkaReader
from tidegate.log.kafka.send import send
from tidegate.log.kafka.zero_time import MARK
from tidegate.log.records import Row, to_batch
from tidegate.types import Offset, TopicPartition

FETCH = 1


@pytest.fixture(scope="module")
def cluster(compiled: Any) -> Iterator[MockCluster]:
    with mock_cluster() as made:
        yield made


def write(cluster: MockCluster, partition: TopicPartition, written: list[Row]) -> None:
    if not written:
        return
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "linger.ms": 0}, logger=logging.getLogger("x")
    )
    send(producer, partition, to_batch(written), last=lambda *_: None)
    assert producer.flush(SECONDS) == 0


def open_reader(clients: Clients, *partitions: TopicPartition, at: int = 0) -> KafkaReader:
    consumer, pages = clients.reading()
    positions = dict.fromkeys(partitions, Offset(at))
    return KafkaReader(consumer, positions, lambda _: (0, 0), lambda _: {}, pages)


def read_all(reader: KafkaReader, *partitions: TopicPartition) -> dict[TopicPartition, pa.Table]:
    """All records up to the ends; each page has offsets that rise, and is whole."""
    found: dict[TopicPartition, list[pa.RecordBatch]] = {one: [] for one in partitions}
    deadline = time.monotonic() + SECONDS
    with closing(reader):
        while not all(reader.at_end(one) for one in partitions):
            assert time.monotonic() < deadline
            for fetched in reader.poll(0.2):
                fetched.batch.validate(full=True)
                found[fetched.partition].append(fetched.batch)
                assert reader.position(fetched.partition) == fetched.next
        for one, batches in found.items():
            assert reader.position(one) == sum(batch.num_rows for batch in batches)
    return {
        one: pa.Table.from_batches(batches).combine_chunks()
        for one, batches in found.items()
        if sum(batch.num_rows for batch in batches)
    }


@contextmanager
def pages_of(records: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_module, "PAGE_RECORDS", records)
        yield


def test_the_module_is_in_use_where_it_is_installed(cluster: MockCluster) -> None:
    consumer, pages = cluster.clients().reading()
    assert isinstance(pages, BulkPages)
    consumer.close()
    consumer, pages = cluster.clients_in_python().reading()
    assert isinstance(pages, ClientPages)
    consumer.close()


# Not shrunk: each example takes a third of a second.
@settings(
    max_examples=12,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    first=st.lists(rows, max_size=30),
    second=st.lists(rows, max_size=30),
    page=st.sampled_from([1, 2, 7, 10_000]),
)
def test_both_loops_read_the_same(
    cluster: MockCluster, first: list[Row], second: list[Row], page: int
) -> None:
    partitions = topic(cluster), topic(cluster)
    for partition, written in zip(partitions, (first, second), strict=True):
        write(cluster, partition, written)
    with pages_of(page):
        plain = read_all(open_reader(cluster.clients_in_python(), *partitions), *partitions)
        fast = read_all(open_reader(cluster.clients(), *partitions), *partitions)
    assert fast == plain
    for partition, written in zip(partitions, (first, second), strict=True):
        assert (fast[partition].num_rows if partition in fast else 0) == len(written)
        if written:
            assert fast[partition].column("timestamp").to_pylist() == [row.timestamp for row in written]


def test_pages_hold_no_more_records_than_asked_for(cluster: MockCluster) -> None:
    partition = topic(cluster)
    write(cluster, partition, [Row(b"k", b"%d" % number, 5) for number in range(100)])
    with pages_of(10), closing(open_reader(cluster.clients(), partition)) as reader:
        sizes: list[int] = []
        while sum(sizes) < 100:
            sizes += [fetched.batch.num_rows for fetched in reader.poll(SECONDS)]
    assert max(sizes) == 10


def test_callbacks_run_though_records_are_read(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """With `debug` librdkafka logs for each fetch: callbacks come between records all the time."""
    caplog.set_level(logging.DEBUG, "tidegate.kafka")
    partition = topic(cluster)
    write(cluster, partition, [Row(b"k", b"v" * 100, 5)] * 3000)
    plain = read_all(open_reader(cluster.clients_in_python(), partition), partition)
    caplog.clear()
    with pages_of(50):
        noisy = {"debug": "fetch,queue", "fetch.message.max.bytes": 4000, "queued.max.messages.kbytes": 16}
        fast = read_all(open_reader(cluster.clients(consumer=noisy), partition), partition)
    assert fast == plain
    assert any("Fetch" in record.getMessage() for record in caplog.records)


def test_a_position_that_is_out_of_range_is_reported_alike(cluster: MockCluster) -> None:
    partition = topic(cluster)
    write(cluster, partition, [Row(b"k", b"v", 5)])
    errors = []
    for clients in (cluster.clients(), cluster.clients_in_python()):
        with closing(open_reader(clients, partition, at=99)) as reader, pytest.raises(LogError) as raised:
            for _ in range(100):
                reader.poll(0.2)
        errors.append((raised.value.code, raised.value.message))
    assert errors[0] == errors[1]


def test_a_topic_that_may_not_be_read_is_reported_alike(cluster: MockCluster) -> None:
    partition = topic(cluster)
    write(cluster, partition, [Row(b"k", b"v", 5)])
    errors = []
    for clients in (cluster.clients(), cluster.clients_in_python()):
        cluster.answer(FETCH, *[KafkaError.TOPIC_AUTHORIZATION_FAILED] * 20)
        with closing(open_reader(clients, partition)) as reader, pytest.raises(LogError) as raised:
            for _ in range(100):
                reader.poll(0.2)
        cluster.forget(FETCH)
        errors.append((raised.value.code, raised.value.message, raised.value.retryable))
    assert errors[0] == errors[1]
    assert errors[0][0] == "not-allowed"


def test_a_wait_lasts_as_long_as_asked_for_and_no_longer(cluster: MockCluster) -> None:
    partition = topic(cluster)
    with closing(open_reader(cluster.clients(), partition)) as reader:
        while not reader.at_end(partition):
            reader.poll(0.1)
        began = time.monotonic()
        assert reader.poll(0.5) == []
        assert 0.45 < time.monotonic() - began < 5

        def seconds_without_a_wait() -> float:
            began = time.monotonic()
            assert reader.poll(0) == []
            return time.monotonic() - began

        assert min(seconds_without_a_wait() for _ in range(5)) < 0.2


def test_a_record_ends_a_wait(cluster: MockCluster) -> None:
    partition = topic(cluster)
    with closing(open_reader(cluster.clients(), partition)) as reader:
        while not reader.at_end(partition):
            reader.poll(0.1)
        write(cluster, partition, [Row(b"k", b"v", 5)])
        began = time.monotonic()
        assert [fetched.batch.num_rows for fetched in reader.poll(SECONDS)] == [1]
        assert time.monotonic() - began < SECONDS / 2


def test_a_signal_ends_a_wait(cluster: MockCluster) -> None:
    partition = topic(cluster)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        with closing(open_reader(cluster.clients(), partition)) as reader:
            while not reader.at_end(partition):
                reader.poll(0.1)
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                reader.poll(SECONDS)
            assert time.monotonic() - began < SECONDS / 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def test_a_reader_moves_and_pauses_in_the_compiled_loop(cluster: MockCluster) -> None:
    partition, other = topic(cluster), topic(cluster)
    write(cluster, partition, [Row(b"k", b"%d" % number, 5) for number in range(20)])
    with closing(open_reader(cluster.clients(), partition, other)) as reader:
        reader.pause([partition])
        for _ in range(5):
            assert all(fetched.partition == other for fetched in reader.poll(0.05))
        reader.pause([])
        for start in (0, 15, 3):
            reader.seek(partition, Offset(start))
            found: list[int] = []
            while not reader.at_end(partition):
                found += [
                    offset
                    for fetched in reader.poll(0.2)
                    for offset in fetched.batch.column("offset").to_pylist()
                ]
            assert found == list(range(start, 20))


class TestHeaderNames:
    """Kafka's client for Python cannot read a header whose name is not UTF-8."""

    @pytest.fixture
    def partition(self, cluster: MockCluster, compiled: Any) -> TopicPartition:
        """One with such a record, after another one."""
        partition = topic(cluster)
        write(cluster, partition, [Row(b"k", b"v", 5, [("é", b"1")])])
        one, ends = (0, None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"k")), b"\0\0\0\0\3\0\0\0"
        name = (0, None, pa.py_buffer(ends), pa.py_buffer(b"a\xffb"))
        producer = compiled.Producer([("bootstrap.servers", cluster.bootstrap)], print, print)
        time_of_it = (0, pa.py_buffer((5).to_bytes(8, "little")))
        appended = producer.append(*partition, 0, 1, time_of_it, one, one, (one[:3], name, one), *MARK)
        assert appended == (1, None)
        assert producer.flush(int(1000 * SECONDS)) == (0, None)
        return partition

    def test_the_compiled_loop_replaces_what_cannot_be_decoded(
        self, cluster: MockCluster, partition: TopicPartition
    ) -> None:
        found = read_all(open_reader(cluster.clients(), partition), partition)[partition]
        names = [[pair["name"] for pair in pairs] for pairs in found.column("headers").to_pylist()]
        assert names == [["é"], ["a\ufffdb"]]

    def test_in_python_the_error_tells_what_to_do(
        self, cluster: MockCluster, partition: TopicPartition
    ) -> None:
        reader = open_reader(cluster.clients_in_python(), partition)
        with closing(reader), pytest.raises(LogError) as raised:
            for _ in range(100):
                reader.poll(0.2)
        assert raised.value.code == "bad-header-name"
        assert partition.topic in raised.value.message
        assert "docs/kafka.md" in raised.value.hint


def test_a_closed_client_is_refused_and_not_used(cluster: MockCluster, compiled: Any) -> None:
    consumer, pages = cluster.clients().reading()
    pages.close()
    consumer.close()
    with pytest.raises(RuntimeError, match="closed"):
        pages.poll(10, 0)
    with pytest.raises(RuntimeError, match="closed"):
        compiled.attach(1 << 60)


def test_a_reader_that_is_dropped_instead_of_closed_harms_nothing(cluster: MockCluster) -> None:
    partition = topic(cluster)
    write(cluster, partition, [Row(b"k", b"v", 5)] * 10)
    for _ in range(3):
        reader = open_reader(cluster.clients(), partition)
        reader.poll(0.5)
        del reader
        gc.collect()
    assert read_all(open_reader(cluster.clients(), partition), partition)[partition].num_rows == 10


def test_a_producer_is_no_consumer(cluster: MockCluster, compiled: Any) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, PLUGINS: compiled.__file__})
    number = compiled.created()
    assert compiled.created() is None
    with pytest.raises(TypeError, match="no consumer"):
        compiled.fetch(number, 1, 0, "n", b"v")
    del producer


def test_a_library_that_does_not_fit_is_refused_with_a_reason(compiled: Any, cluster: MockCluster) -> None:
    assert checked(compiled, "missing.so").reason == "confluent-kafka's library is not loaded"
    assert "has no function rd_kafka_" in checked(compiled, "libc.so.6").reason
    partition = topic(cluster)
    write(cluster, partition, [Row(b"k", b"v", 5)])
    assert partition in read_all(open_reader(cluster.clients(), partition), partition)  # as before


class Module:
    """Stands in for the compiled module."""

    __file__ = "/x/bulk.so"

    def __init__(self, api: int, refusal: str | None = None) -> None:
        self.API = api
        self._refusal = refusal

    def load(self, *_: str) -> str | None:
        return self._refusal


def test_a_module_is_used_if_it_has_this_interface_and_accepts_the_library() -> None:
    fits = Module(bulk_module.API)
    assert checked(fits, "lib.so") == (fits, "")
    assert checked(Module(99), "lib.so").module is None
    assert (
        checked(Module(99), "lib.so").reason
        == f"{MODULE} is for another version of tidegate: install it again"
    )
    assert checked(Module(bulk_module.API, "too old"), "lib.so") == (None, "too old")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModuleNotFoundError("no module"), f"{MODULE} is not installed"),
        (ImportError("bad ELF"), f"{MODULE} cannot be loaded: bad ELF"),
    ],
)
def test_without_the_module_records_are_read_in_python(
    monkeypatch: pytest.MonkeyPatch, error: ImportError, reason: str
) -> None:
    def fail(_: str) -> None:
        raise error

    monkeypatch.setattr(bulk_module, "import_module", fail)
    monkeypatch.setattr("tidegate.log.kafka.clients.bulk", bulk.__wrapped__)
    assert bulk.__wrapped__() == (None, reason)
    consumer, pages = Clients("127.0.0.1:1", {}).reading()
    assert isinstance(pages, ClientPages)
    consumer.close()


def test_plugins_of_the_user_are_kept() -> None:
    module = Module(1)
    assert with_plugin({"a": 1}, module) == {"a": 1, PLUGINS: "/x/bulk.so"}
    assert with_plugin({PLUGINS: "theirs.so"}, module)[PLUGINS] == "theirs.so;/x/bulk.so"
