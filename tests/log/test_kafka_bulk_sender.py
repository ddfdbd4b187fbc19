"""The compiled loop writes what the loop in Python writes: on librdkafka's mock brokers."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.log.compiled_loops import SECONDS, numbers, rows, topic
from tests.log.mock_cluster import END_TRANSACTION, PRODUCE, Described, MockCluster, mock_cluster

from tidegate.clock import SystemClock
from tidegate.errors import ConfigError, LogError
from tidegate.log.kafka.bulk_sender import BulkSender
from tidegate.log.kafka.clients import Clients
from tidegate.log.kafka.reader import KafkaReader
from tidegate.log.kafka.sender import ClientSender, Sender
from tidegate.log.kafka.writer import KafkaWriter
from tidegate.log.records import Row, to_batch
from tidegate.types import Offset, TopicPartition

QUICK: dict[str, Any] = {"transactional.id": "bulk", "linger.ms": 0}


@pytest.fixture(scope="module")
def cluster(compiled: Any) -> Iterator[MockCluster]:
    with mock_cluster() as made:
        yield made


def begun(clients: Clients) -> Sender:
    sender = clients.sender(QUICK | {"transactional.id": f"id{next(numbers)}"})
    sender.init_transactions(SECONDS)
    sender.begin_transaction()
    return sender


def read_all(cluster: MockCluster, partition: TopicPartition) -> pa.Table:
    """All records of the partition, read in Python."""
    consumer, pages = cluster.clients_in_python().reading()
    start = {partition: Offset(0)}
    found: list[pa.RecordBatch] = []
    deadline = time.monotonic() + SECONDS
    with closing(KafkaReader(consumer, start, lambda _: (0, 0), lambda _: {}, pages)) as reader:
        while not reader.at_end(partition):
            assert time.monotonic() < deadline
            found += [fetched.batch for fetched in reader.poll(0.2)]
    return pa.Table.from_batches(found).combine_chunks()


def written_by(cluster: MockCluster, clients: Clients, batches: list[pa.RecordBatch]) -> pa.Table:
    """The records after they were sent to a partition of their own, without their offsets."""
    partition = topic(cluster)
    sender = begun(clients)
    for batch in batches:
        sender.queue(partition, batch)
    assert sender.flush(SECONDS) == 0
    assert sender.refusal() is None
    assert sender.misreport() is None
    sender.commit_transaction(SECONDS)
    found = read_all(cluster, partition)
    assert sender.next_offset(partition) == found.num_rows == sum(batch.num_rows for batch in batches)
    return found.drop_columns(["offset"])


def test_the_module_is_in_use_where_it_is_installed(cluster: MockCluster) -> None:
    assert isinstance(cluster.clients().sender(QUICK), BulkSender)
    assert isinstance(cluster.clients_in_python().sender(QUICK), ClientSender)


# Not shrunk: each example takes a second.
@settings(
    max_examples=12,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(written=st.lists(rows, min_size=3, max_size=30), data=st.data())
def test_both_loops_write_the_same(cluster: MockCluster, written: list[Row], data: st.DataObject) -> None:
    """Batches that begin inside of others too: their columns have an offset."""
    whole = to_batch(written)
    begin = data.draw(st.integers(0, len(written) - 1))
    batches = [whole, whole.slice(begin), whole.slice(begin, 1), whole.slice(0, begin + 1)]
    plain = written_by(cluster, cluster.clients_in_python(), batches)
    assert written_by(cluster, cluster.clients(), batches) == plain
    times = [row.timestamp for row in [*written, *written[begin:], written[begin], *written[: begin + 1]]]
    assert plain.column("timestamp").to_pylist() == times


def test_nulls_and_empty_bytes_stay_different(cluster: MockCluster) -> None:
    all_null = [pa.nulls(2, pa.binary()), pa.nulls(2, pa.binary())]
    empty = [pa.array([b"", b""], pa.binary())] * 2
    batches = [
        pa.RecordBatch.from_arrays(
            [pa.array([5, 6], pa.int64()), *columns, to_batch([Row(b"", b"", 1)] * 2).column(3)],
            schema=to_batch([]).schema,
        )
        for columns in (all_null, empty)
    ]
    found = written_by(cluster, cluster.clients(), batches)
    assert found.column("key").to_pylist() == found.column("value").to_pylist() == [None, None, b"", b""]


def test_a_record_without_timestamp_is_refused(cluster: MockCluster) -> None:
    row = to_batch([Row(b"k", b"v", 5)])
    missing = pa.RecordBatch.from_arrays([pa.nulls(1, pa.int64()), *row.columns[1:]], schema=row.schema)
    sender = begun(cluster.clients())
    with pytest.raises(ValueError, match="no timestamp"):
        sender.queue(topic(cluster), missing)


def test_a_full_queue_is_waited_for(cluster: MockCluster) -> None:
    clients = cluster.clients(producer={"queue.buffering.max.messages": 10})
    batch = to_batch([Row(b"k", b"%d" % number, 5, [("name", b"h")]) for number in range(95)])
    values = written_by(cluster, clients, [batch]).column("value").to_pylist()
    assert values == [b"%d" % number for number in range(95)]


def test_offsets_are_those_of_each_partition(cluster: MockCluster) -> None:
    one, other = topic(cluster), topic(cluster)
    sender = begun(cluster.clients())
    with pytest.raises(KeyError):
        sender.next_offset(one)
    for number in range(1, 4):
        sender.queue(one, to_batch([Row(b"k", b"v", 5)] * number))
        sender.queue(other, to_batch([Row(b"k", b"v", 5)]))
        assert sender.flush(SECONDS) == 0
        markers = number - 1
        assert sender.next_offset(one) == number * (number + 1) // 2 + markers
        assert sender.next_offset(other) == number + markers
        sender.commit_transaction(SECONDS)
        sender.begin_transaction()


def test_a_refusal_names_its_topic_until_it_is_reset(cluster: MockCluster) -> None:
    partition = topic(cluster)
    for clients in (cluster.clients(), cluster.clients_in_python()):
        sender = begun(clients)
        cluster.answer(PRODUCE, KafkaError.TOPIC_AUTHORIZATION_FAILED)
        sender.queue(partition, to_batch([Row(b"k", b"v", 5)] * 3))
        sender.flush(SECONDS)
        cluster.forget(PRODUCE)
        refusal = sender.refusal()
        assert refusal is not None
        assert refusal.topic == partition.topic
        assert refusal.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert "Topic authorization failed" in refusal.error.str()
        sender.reset()
        assert sender.refusal() is None


def test_a_record_that_the_client_refuses_is_reported_alike(cluster: MockCluster) -> None:
    partition = topic(cluster)
    errors = []
    for clients in (
        cluster.clients(producer={"message.max.bytes": 1000}),
        cluster.clients_in_python(producer={"message.max.bytes": 1000}),
    ):
        writer = KafkaWriter(clients, Described(clients), SystemClock(), f"id{next(numbers)}")
        with pytest.raises(LogError) as raised:
            writer.append(partition, to_batch([Row(b"k", b"v" * 2000, 5, [("name", b"h")])]))
        errors.append((raised.value.code, raised.value.hint, raised.value.retryable))
    assert errors[0] == errors[1]
    assert errors[0][0] == "record-too-large"


def test_calls_in_the_wrong_order_are_refused_alike(cluster: MockCluster) -> None:
    found = []
    for clients in (cluster.clients(), cluster.clients_in_python()):
        sender = begun(clients)
        with pytest.raises(KafkaException) as raised:
            sender.begin_transaction()
        error = raised.value.args[0]
        found.append(
            (error.code(), error.str(), error.fatal(), error.retriable(), error.txn_requires_abort())
        )
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("no.such.setting", "secret-1"), ("compression.type", "secret-2"), ("linger.ms", "secret-3")],
)
def test_a_setting_that_cannot_be_used_is_named_without_its_value(
    cluster: MockCluster, setting: str, value: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        cluster.clients(producer={setting: value}).sender(QUICK)
    assert raised.value.message == f"[kafka] {setting} cannot be used"
    assert value not in str(raised.value)


def test_settings_that_contradict_each_other_are_refused_alike(cluster: MockCluster) -> None:
    contradiction = {"max.in.flight.requests.per.connection": 6}
    messages = []
    for clients in (
        cluster.clients(producer=contradiction),
        cluster.clients_in_python(producer=contradiction),
    ):
        with pytest.raises(ConfigError) as raised:
            clients.sender(QUICK)
        messages.append(raised.value.message)
    assert messages == ["[kafka] enable.idempotence cannot be used"] * 2


def test_a_login_that_only_the_client_has_is_left_to_it(cluster: MockCluster) -> None:
    """It is the client that refuses it here, for lack of the setting that must come with it."""
    login = {"sasl.oauthbearer.metadata.authentication.type": "aws_iam"}
    with pytest.raises(ConfigError, match=r"metadata\.authentication\.type cannot be used"):
        cluster.clients(producer=login).sender(QUICK)


def test_logs_reach_the_logger_with_their_levels(
    cluster: MockCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "tidegate.kafka")
    partition = topic(cluster)
    sender = begun(cluster.clients(producer={"debug": "msg,eos"}))
    sender.queue(partition, to_batch([Row(b"k", b"v", 5)]))
    sender.flush(SECONDS)
    assert any(
        record.levelno == logging.DEBUG and "rdkafka#producer" in record.getMessage()
        for record in caplog.records
    )


def test_errors_in_the_background_are_noted_and_logged(
    compiled: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.log.kafka.clients.CONNECT_SECONDS", 0.1)
    clients = Clients("127.0.0.1:1", {})
    sender = clients.sender(QUICK)
    deadline = time.monotonic() + SECONDS
    while clients.last_error is None:
        assert time.monotonic() < deadline
        sender.flush(0.1)
    assert clients.last_error.code() in {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
    assert any(record.levelno == logging.ERROR and "FAIL" in record.getMessage() for record in caplog.records)


def test_a_fatal_error_is_raised_and_not_taken_for_one_of_the_cluster(cluster: MockCluster) -> None:
    partition = topic(cluster)
    for clients in (cluster.clients(), cluster.clients_in_python()):
        sender = begun(clients)
        sender.queue(partition, to_batch([Row(b"k", b"v", 5)]))
        assert sender.flush(SECONDS) == 0
        cluster.answer(END_TRANSACTION, KafkaError.PRODUCER_FENCED)
        with pytest.raises(KafkaException) as raised:
            sender.commit_transaction(SECONDS)
        assert raised.value.args[0].fatal()
        assert raised.value.args[0].code() == KafkaError._FENCED
        cluster.forget(END_TRANSACTION)
        with pytest.raises((KafkaException, SystemError)):
            for _ in range(100):
                sender.flush(0.1)
                sender.begin_transaction()
        assert clients.last_error is None


def test_an_interrupt_in_a_callback_ends_the_call(cluster: MockCluster, compiled: Any) -> None:
    """Python raises KeyboardInterrupt in whatever it runs first, which may be a callback."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    listed = [("bootstrap.servers", cluster.bootstrap), ("debug", "broker")]
    producer = compiled.Producer(listed, interrupt, print)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        producer.poll(int(1000 * SECONDS))
    assert time.monotonic() - began < SECONDS / 2


def test_an_error_in_a_callback_harms_nothing(cluster: MockCluster, compiled: Any) -> None:
    """It is reported as Python does for errors that nobody can catch."""
    unraisable: list[Any] = []

    def fail(*_: object) -> None:
        raise RuntimeError("in the callback")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.unraisablehook", unraisable.append)
        listed = [("bootstrap.servers", cluster.bootstrap), ("debug", "broker")]
        producer = compiled.Producer(listed, fail, fail)
        deadline = time.monotonic() + SECONDS
        while not unraisable:
            assert time.monotonic() < deadline
            producer.poll(50)
        del producer
    assert str(unraisable[0].exc_value) == "in the callback"
    unraisable.clear()


def test_a_sender_that_is_dropped_with_records_in_its_queue_harms_nothing(cluster: MockCluster) -> None:
    partition = topic(cluster)
    for _ in range(3):
        sender = begun(cluster.clients(producer={"linger.ms": 5000}))
        sender.queue(partition, to_batch([Row(b"k", b"v", 5)] * 1000))
        del sender
        gc.collect()
    batch = to_batch([Row(b"k", b"v", 5)])
    assert written_by(cluster, cluster.clients(), [batch]).num_rows == 1


def test_other_threads_run_while_a_flush_waits(cluster: MockCluster) -> None:
    partition = topic(cluster)
    sender = begun(cluster.clients())
    cluster.answer(PRODUCE, *[KafkaError.REQUEST_TIMED_OUT] * 500)
    sender.queue(partition, to_batch([Row(b"k", b"v", 5)]))
    began, ended, meanwhile = [], [], []

    def flush() -> None:
        began.append(time.monotonic())
        sender.flush(2.0)
        ended.append(time.monotonic())

    thread = threading.Thread(target=flush)
    thread.start()
    while thread.is_alive():
        meanwhile.append(time.monotonic())
        time.sleep(0.01)
    cluster.forget(PRODUCE)
    assert any(began[0] + 0.1 < moment < ended[0] - 0.1 for moment in meanwhile)


class TestBuffers:
    """Buffers that do not fit their rows are refused before anything of them is read."""

    ENDS = pa.py_buffer(b"\0\0\0\0\1\0\0\0")
    DATA = pa.py_buffer(b"k")
    TIME = pa.py_buffer(b"\5\0\0\0\0\0\0\0")
    COLUMN = (0, None, ENDS, DATA)

    @pytest.fixture
    def append(self, cluster: MockCluster, compiled: Any) -> Callable[..., Any]:
        name = topic(cluster).topic
        listed = [("bootstrap.servers", cluster.bootstrap), ("linger.ms", "0")]
        producer = compiled.Producer(listed, print, print)

        def append(
            times: Any = (0, self.TIME),
            keys: Any = self.COLUMN,
            values: Any = self.COLUMN,
            headers: Any = None,
        ) -> Any:
            return producer.append(name, 0, 0, 1, times, keys, values, headers, "n", b"v")

        return append

    def test_one_row_fits(self, append: Callable[..., Any]) -> None:
        assert append() == (1, None)

    @pytest.mark.parametrize(
        "columns",
        [
            {"times": (1, TIME)},
            {"times": (0, None)},
            {"keys": (1, None, ENDS, DATA)},
            {"keys": (0, pa.py_buffer(b""), ENDS, DATA)},
            {"keys": (0, None, None, DATA)},
            {"values": (0, None, ENDS, pa.py_buffer(b""))},
            {"values": (0, None, ENDS, None)},
            {"headers": ((0, None, ENDS), COLUMN, (1, None, ENDS, DATA))},
            {"headers": ((1, None, ENDS), COLUMN, COLUMN)},
        ],
    )
    def test_what_is_too_short_is_refused(self, append: Callable[..., Any], columns: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=r"a buffer has|without"):
            append(**columns)
