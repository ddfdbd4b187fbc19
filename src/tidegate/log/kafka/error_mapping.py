"""Translate Kafka's errors into LogErrors: callers never see the originals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from tidegate.errors import FencedError, LogError
from tidegate.types import TopicPartition

FENCED = frozenset(
    [
        KafkaError._FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.UNKNOWN_PRODUCER_ID,
    ]
)
"""A transaction that timed out is reported as one of these too: a client cannot distinguish the two."""

_ACLS = "grant the permissions that docs/kafka.md lists"
UNREACHABLE, UNNAMED, COMMIT_UNKNOWN = "log-unreachable", "kafka-error", "commit-unknown"
_UNREACHABLE = (UNREACHABLE, "check the address and that the broker runs; nothing committed is lost")
_GROUPS: list[tuple[tuple[int, ...], str, str]] = [
    (
        (
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._TIMED_OUT,
            KafkaError._MSG_TIMED_OUT,
            KafkaError._TIMED_OUT_QUEUE,
            KafkaError._RESOLVE,
            KafkaError._WAIT_COORD,
            KafkaError._NOENT,  # "no leaders found"
            KafkaError.REQUEST_TIMED_OUT,
            KafkaError.LEADER_NOT_AVAILABLE,
            KafkaError.NOT_LEADER_FOR_PARTITION,
            KafkaError.BROKER_NOT_AVAILABLE,
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
            KafkaError.NOT_COORDINATOR,
            KafkaError.NOT_ENOUGH_REPLICAS,
            KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            KafkaError.NETWORK_EXCEPTION,
            KafkaError.FENCED_LEADER_EPOCH,
            KafkaError.UNKNOWN_LEADER_EPOCH,
            KafkaError.OFFSET_NOT_AVAILABLE,
            KafkaError.KAFKA_STORAGE_ERROR,
        ),
        *_UNREACHABLE,
    ),
    (
        (KafkaError._SSL, KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED),
        "not-authenticated",
        "check security.protocol and the sasl.* and ssl.* settings under [kafka]",
    ),
    (
        (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        "not-allowed",
        _ACLS,
    ),
    (
        (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION),
        "no-such-topic",
        "list the topics that exist with: tidegate topics list",
    ),
    (
        (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE),
        "record-too-large",
        "send less in one record, or raise max.message.bytes of the topic",
    ),
    (
        (KafkaError.INVALID_TIMESTAMP,),
        "bad-timestamp",
        "compare the clocks of this host and the broker, or raise message.timestamp.after.max.ms",
    ),
    (
        (KafkaError.INVALID_RECORD, KafkaError._INVALID_DIFFERENT_RECORD),
        "record-refused",
        "a compacted topic accepts no record without a key; a topic may have a timestamp limit",
    ),
    (
        (KafkaError.POLICY_VIOLATION, KafkaError.INVALID_CONFIG, KafkaError.INVALID_REPLICATION_FACTOR),
        "refused-by-broker",
        "request what the cluster allows; [kafka.topics] sets replication.factor",
    ),
]
_CODES = {number: (code, hint) for numbers, code, hint in _GROUPS for number in numbers}

RAISED = (KafkaException, SystemError)
"""What librdkafka's clients raise: a fatal error inside a callback is raised as a SystemError."""


def error_of(cause: BaseException) -> KafkaError:
    """Return the KafkaError inside an exception; `_FATAL` if it has none."""
    inner = cause.__cause__ if isinstance(cause, SystemError) else cause
    if isinstance(inner, KafkaException):
        error: KafkaError = inner.args[0]
        return error
    return KafkaError(KafkaError._FATAL, "the client failed for good")


def raised_by(call: Callable[[], object]) -> BaseException | None:
    """Call librdkafka on a separate thread and return what the call raised.

    If a call raises while its thread handles another exception, confluent-kafka keeps that other exception,
    and every object that its frames hold, until the process ends.
    """
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - returned
            raised.append(error)

    thread = threading.Thread(target=run, name="tidegate-kafka-call")
    thread.start()
    thread.join()
    return raised[0] if raised else None


def translate_error(error: KafkaError, doing: str, writer_id: str = "") -> LogError:
    """Translate a Kafka error that occurred in `doing`; with `writer_id`, fencing becomes FencedError."""
    if writer_id and error.code() in FENCED:
        return FencedError(writer_id)
    code, hint = _CODES.get(error.code(), (UNNAMED, "try again; nothing committed is lost"))
    retryable = code == UNREACHABLE or error.retriable()
    return LogError(code, f"{doing}: {error.str()} ({error.name()})", hint, retryable=retryable)


def unknown_commit(error: KafkaError, writer_id: str) -> LogError:
    """Return the error for a commit request that got no answer: it may have taken effect."""
    return LogError(
        COMMIT_UNKNOWN,
        f"writer {writer_id!r} got no answer to its commit: {error.str()} ({error.name()});"
        " the broker may have committed or not",
        "open the writer again, and read the positions or the topics before you write anything again",
    )


def unknown_append(error: KafkaError, partition: TopicPartition) -> LogError | None:
    """Return the error for an unconfirmed record outside of a transaction; None if it was surely not
    written."""
    if _CODES.get(error.code(), ("", ""))[0] != UNREACHABLE:
        return None
    return LogError(
        COMMIT_UNKNOWN,
        f"the broker did not confirm a record for {partition} in time: {error.str()} ({error.name()});"
        " it may have been written or not",
        "read the topic before you append it again",
    )


@contextmanager
def translated_errors(doing: str, writer_id: str = "") -> Iterator[None]:
    """Raise errors of librdkafka from inside the block as LogErrors with a hint."""
    try:
        yield
    except RAISED as cause:
        raise translate_error(error_of(cause), doing, writer_id) from cause
