"""What the Kafka log reports when brokers answer late, twice, or not at all.

On librdkafka's mock brokers, with records sent in Python and in the compiled loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError
from tests.log.mock_cluster import (
    END_TRANSACTION,
    INIT_PRODUCER,
    PRODUCE,
    Described,
    MockCluster,
    mock_cluster,
)
from tests.needs import missing_for_compiled

from tidegate.clock import SystemClock
from tidegate.errors import FencedError, LogError
from tidegate.log.kafka import writer as kafka_writer
from tidegate.log.kafka.appender import Appender
from tidegate.log.kafka.clients import Clients
from tidegate.log.kafka.sender import Sender
from tidegate.log.kafka.writer import KafkaWriter
from tidegate.log.records import to_batch
from tidegate.testing.conformance.bench import row
from tidegate.types import TopicPartition

TOPIC = TopicPartition("t", 0)
SETTINGS: dict[str, Any] = {"transaction.timeout.ms": 60_000, "batch.num.messages": 10}
HASTY = {"transaction.timeout.ms": 1000}
OpenWriter = Callable[..., KafkaWriter]
ClientsWith = Callable[..., Clients]
NONE, TWICE = 0, KafkaError.DUPLICATE_SEQUENCE_NUMBER


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    """Brokers of one test: a client of an earlier one may still send requests, and would get its answers."""
    with mock_cluster() as made:
        made.create(TOPIC.topic)
        yield made


@pytest.fixture(params=["in Python", "compiled"])
def clients_with(request: pytest.FixtureRequest, cluster: MockCluster) -> ClientsWith:
    if request.param == "in Python":
        return cluster.clients_in_python
    if (reason := missing_for_compiled()) is not None:
        pytest.skip(reason)
    return cluster.clients


@pytest.fixture
def open_writer(clients_with: ClientsWith) -> Iterator[OpenWriter]:
    opened: list[KafkaWriter] = []

    def open_writer(**settings: Any) -> KafkaWriter:
        clients = clients_with(producer=SETTINGS | settings)
        opened.append(KafkaWriter(clients, Described(clients), SystemClock(), "slot"))
        return opened[-1]

    yield open_writer
    for writer in opened:
        writer.close()


@pytest.fixture
def no_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer counts as the first one however late this process gets it."""
    monkeypatch.setattr(kafka_writer, "TRY_SECONDS", 60.0)


@pytest.fixture
def appender(clients_with: ClientsWith) -> Iterator[Appender]:
    clients = clients_with(producer=SETTINGS)
    with closing(Appender(clients, Described(clients), SystemClock())) as made:
        yield made
    clients.close()


class Late:
    """A sender whose thread wakes only after the last answer to a commit."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sender, name)

    def commit_transaction(self, seconds: float) -> None:
        self._sender.commit_transaction(60 * seconds)


def rows(count: int) -> Any:
    return to_batch([row(b"k", b"v")] * count)


def refused(call: Callable[[], object]) -> LogError:
    with pytest.raises(LogError) as error:
        call()
    return error.value


class TestAppend:
    """Outside of the caller's transactions: all or none."""

    def test_a_request_that_is_lost_in_the_middle_fails_the_whole_append(
        self, cluster: MockCluster, appender: Appender
    ) -> None:
        appender.append(TOPIC, rows(100))
        cluster.answer(PRODUCE, NONE, NONE, KafkaError.MSG_SIZE_TOO_LARGE)
        error = refused(lambda: appender.append(TOPIC, rows(100)))
        assert error.code == "record-too-large"
        assert "nothing was appended to t/0" in error.message

    def test_after_a_failure_the_next_append_goes_on(self, cluster: MockCluster, appender: Appender) -> None:
        before = appender.append(TOPIC, rows(20))
        cluster.answer(PRODUCE, KafkaError.MSG_SIZE_TOO_LARGE)
        assert refused(lambda: appender.append(TOPIC, rows(20))).code == "record-too-large"
        assert appender.append(TOPIC, rows(20)) > before

    @pytest.mark.parametrize("count", [1, 2, 25])
    def test_an_answer_without_offset_is_no_offset(
        self, cluster: MockCluster, appender: Appender, count: int
    ) -> None:
        appender.append(TOPIC, rows(1))
        cluster.answer(PRODUCE, *[TWICE] * 9)
        error = refused(lambda: appender.append(TOPIC, rows(count)))
        assert error.code == "offset-unknown"
        assert error.retryable is (count > 1), "a single record is there, a transaction is not"
        assert ("the record was appended to t/0" in error.message) is (count == 1)

    def test_a_record_that_nobody_confirms_may_be_there(
        self, cluster: MockCluster, clients_with: ClientsWith
    ) -> None:
        cluster.answer(PRODUCE, *[KafkaError.REQUEST_TIMED_OUT] * 500)
        clients = clients_with(producer={"delivery.timeout.ms": 1000})
        with closing(clients), closing(Appender(clients, Described(clients), SystemClock())) as appender:
            error = refused(lambda: appender.append(TOPIC, rows(1)))
        assert error.code == "commit-unknown"
        assert not error.retryable
        assert "read the topic" in error.hint

    def test_an_id_that_expired_is_opened_again(self, cluster: MockCluster, appender: Appender) -> None:
        """Nothing of a writer that was refused before its commit counts, so the records are sent again."""
        before = appender.append(TOPIC, rows(5))
        cluster.answer(PRODUCE, KafkaError.INVALID_PRODUCER_ID_MAPPING)
        assert appender.append(TOPIC, rows(5)) > before

    def test_offsets_below_known_ones_are_requested_again(
        self, cluster: MockCluster, appender: Appender
    ) -> None:
        """As in a topic that was deleted and created again: a new writer knows none."""
        before = appender.append(TOPIC, rows(5))
        cluster.answer(PRODUCE, TWICE)
        assert appender.append(TOPIC, rows(5)) > before

    @pytest.mark.usefixtures("no_stall")
    def test_an_append_that_the_broker_ends_is_aborted_by_name(
        self, cluster: MockCluster, appender: Appender
    ) -> None:
        appender.append(TOPIC, rows(5))
        cluster.answer(END_TRANSACTION, KafkaError.INVALID_PRODUCER_EPOCH)
        error = refused(lambda: appender.append(TOPIC, rows(5)))
        assert error.code == "append-aborted"
        assert "transaction.timeout.ms" in error.hint

    def test_two_appenders_never_share_an_id(self, clients_with: ClientsWith) -> None:
        clients = clients_with()
        made = [Appender(clients, Described(clients), SystemClock()) for _ in range(2)]
        for turn in range(3):
            for one in made:
                one.append(TOPIC, rows(2 + turn))
        for one in made:
            one.close()
        clients.close()


class TestFlush:
    """An offset that is not known is never guessed."""

    @pytest.mark.parametrize(
        ("count", "answers"),
        [
            (1, [TWICE]),
            (2, [TWICE]),
            (10, [TWICE]),
            (25, [TWICE, TWICE, TWICE]),
            (25, [NONE, TWICE, TWICE]),
            (25, [NONE, NONE, TWICE]),
        ],
    )
    def test_an_offset_that_is_unknown_fails_the_transaction(
        self,
        cluster: MockCluster,
        open_writer: OpenWriter,
        count: int,
        answers: list[int],
    ) -> None:
        writer = open_writer()
        cluster.answer(PRODUCE, *answers)
        writer.append(TOPIC, rows(count))
        error = refused(lambda: writer.flush([TOPIC]))
        assert error.code == "offset-unknown"
        assert error.retryable
        assert writer.unusable

    def test_the_next_writer_learns_the_true_offset(
        self, cluster: MockCluster, open_writer: OpenWriter
    ) -> None:
        writer = open_writer()
        writer.append(TOPIC, rows(30))
        known = writer.flush([TOPIC])[TOPIC]
        writer.commit()
        cluster.answer(PRODUCE, TWICE)
        writer.append(TOPIC, rows(10))
        assert refused(lambda: writer.flush([TOPIC])).code == "offset-unknown"
        again = open_writer()
        again.append(TOPIC, rows(1))
        assert again.flush([TOPIC])[TOPIC] > known
        again.commit()


class TestAbort:
    """What is aborted leaves nothing to the next transaction."""

    def test_records_that_were_not_sent_yet_do_not_fail_the_next_transaction(
        self, open_writer: OpenWriter
    ) -> None:
        """librdkafka reports them as dropped, while it aborts."""
        writer = open_writer(**{"linger.ms": 5000, "batch.num.messages": 10_000})
        writer.append(TOPIC, rows(30))
        writer.abort()
        writer.append(TOPIC, rows(5))
        first = writer.flush([TOPIC])[TOPIC]
        writer.commit()
        writer.append(TOPIC, rows(5))
        assert writer.flush([TOPIC])[TOPIC] > first
        writer.commit()


class TestCommit:
    """What a commit that failed means."""

    def test_a_commit_without_an_answer_is_unknown(
        self, cluster: MockCluster, open_writer: OpenWriter
    ) -> None:
        writer = open_writer(**HASTY)
        writer.append(TOPIC, rows(3))
        writer.flush([TOPIC])
        cluster.answer(END_TRANSACTION, *[KafkaError.COORDINATOR_NOT_AVAILABLE] * 500)
        error = refused(writer.commit)
        assert error.code == "commit-unknown"
        assert not error.retryable, "who writes the records again may have them twice"
        assert writer.unusable

    def test_a_fence_behind_an_unanswered_request_is_unknown_too(
        self, cluster: MockCluster, open_writer: OpenWriter
    ) -> None:
        """The broker may have committed before another writer came."""
        writer = self.fenced_after_unanswered_requests(cluster, open_writer)
        error = refused(writer.commit)
        assert error.code == "commit-unknown"
        assert "_FENCED" in error.message

    def test_so_is_a_fence_that_comes_late_to_the_first_call(
        self, cluster: MockCluster, open_writer: OpenWriter
    ) -> None:
        """A thread without CPU sees only the last answer to requests that librdkafka repeated."""
        writer = self.fenced_after_unanswered_requests(cluster, open_writer)
        writer._sender = Late(writer._sender)
        assert refused(writer.commit).code == "commit-unknown"

    @staticmethod
    def fenced_after_unanswered_requests(cluster: MockCluster, open_writer: OpenWriter) -> KafkaWriter:
        """Return a writer whose commit request is tried again for longer than one call waits."""
        writer = open_writer()
        writer.append(TOPIC, rows(3))
        writer.flush([TOPIC])
        unanswered = [KafkaError.COORDINATOR_NOT_AVAILABLE] * 6
        cluster.answer(END_TRANSACTION, *unanswered, *[KafkaError.INVALID_PRODUCER_EPOCH] * 500)
        return writer

    @pytest.mark.usefixtures("no_stall")
    @pytest.mark.parametrize(
        ("answer", "code"),
        [
            (KafkaError.INVALID_PRODUCER_EPOCH, "fenced"),
            (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "not-allowed"),
        ],
    )
    def test_a_refused_commit_has_the_code_of_the_refusal(
        self, cluster: MockCluster, open_writer: OpenWriter, answer: int, code: str
    ) -> None:
        writer = open_writer()
        writer.append(TOPIC, rows(3))
        writer.flush([TOPIC])
        cluster.answer(END_TRANSACTION, answer)
        error = refused(writer.commit)
        assert error.code == code
        assert isinstance(error, FencedError) is (code == "fenced")

    def test_records_that_cannot_be_sent_are_not_committed_and_that_is_known(
        self, cluster: MockCluster, open_writer: OpenWriter
    ) -> None:
        writer = open_writer()
        writer.append(TOPIC, rows(30))
        cluster.answer(PRODUCE, NONE, KafkaError.MSG_SIZE_TOO_LARGE)
        assert refused(writer.commit).code == "record-too-large"

    def test_a_writer_that_cannot_be_opened_wrote_nothing(
        self, cluster: MockCluster, open_writer: OpenWriter
    ) -> None:
        cluster.answer(INIT_PRODUCER, KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        assert refused(open_writer).code == "not-allowed"
