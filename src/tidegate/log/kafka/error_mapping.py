"""Kafka's errors in our words: no caller ever meets one of theirs."""

from __future__ import annotations

from collections.abc import Iterator
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
"""A transaction that ran out of time shows as one of these too: from here the two look the same."""

_ACLS = "docs/kafka.md lists what tidegate must be allowed to do"
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
        "tidegate topics list shows what there is",
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
        "a compacted topic takes no record without key; a topic may have a timestamp limit",
    ),
    (
        (KafkaError.POLICY_VIOLATION, KafkaError.INVALID_CONFIG, KafkaError.INVALID_REPLICATION_FACTOR),
        "refused-by-broker",
        "ask for what the cluster allows; [kafka.topics] sets replication.factor",
    ),
]
_CODES = {number: (code, hint) for numbers, code, hint in _GROUPS for number in numbers}

RAISED = (KafkaException, SystemError)
"""What librdkafka's clients raise: a fatal error that comes up while they call back leaves as the second."""


def error_of(cause: BaseException) -> KafkaError:
    """The error inside of an exception; `_FATAL` where it got lost on the way."""
    inner = cause.__cause__ if isinstance(cause, SystemError) else cause
    if isinstance(inner, KafkaException):
        error: KafkaError = inner.args[0]
        return error
    return KafkaError(KafkaError._FATAL, "the client cannot go on")


def in_words(error: KafkaError, doing: str, writer_id: str = "") -> LogError:
    """What to raise for an error of Kafka's that came up in `doing`."""
    if writer_id and error.code() in FENCED:
        return FencedError(writer_id)
    code, hint = _CODES.get(error.code(), (UNNAMED, "try again; nothing committed is lost"))
    retryable = code == UNREACHABLE or error.retriable()
    return LogError(code, f"{doing}: {error.str()} ({error.name()})", hint, retryable=retryable)


def unknown_commit(error: KafkaError, writer_id: str) -> LogError:
    """What to raise for a commit that was asked for and not answered: it may count; do not repeat it."""
    return LogError(
        COMMIT_UNKNOWN,
        f"writer {writer_id!r} got no answer to its commit: {error.str()} ({error.name()});"
        " the broker may have done it or not",
        "open the writer again, and read the positions or the topics before you write anything again",
    )


def unknown_append(error: KafkaError, partition: TopicPartition) -> LogError | None:
    """The same for a record that was sent outside of a transaction; None if it is certainly not there."""
    if _CODES.get(error.code(), ("", ""))[0] != UNREACHABLE:
        return None
    return LogError(
        COMMIT_UNKNOWN,
        f"the broker did not confirm a record for {partition} in time: {error.str()} ({error.name()});"
        " it may be there or not",
        "read the topic before you append it again",
    )


@contextmanager
def translated_errors(doing: str, writer_id: str = "") -> Iterator[None]:
    """Whatever librdkafka raises inside leaves as a LogError with a hint."""
    try:
        yield
    except RAISED as cause:
        raise in_words(error_of(cause), doing, writer_id) from cause
