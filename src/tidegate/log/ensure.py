"""Find a declared topic in the log, or create it there."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.errors import ConfigError, LogError
from tidegate.log.protocol import Log
from tidegate.log.topic import DAY_MS, EVENT_TIMES, POLICY, TIMES, TopicInfo, TopicSpec

# A table's readers may be offline for long: a tombstone that is removed too early brings deleted rows back.
TABLE_DEFAULTS = {POLICY: "compact", "delete.retention.ms": str(30 * DAY_MS)}
EVENT_DEFAULTS = {POLICY: "delete"}


def ensure_topic(
    log: Log, name: str, *, table: bool, partitions: int | None, default: int, config: Mapping[str, str]
) -> TopicInfo:
    """Return the topic of this name; create it if it does not exist.

    With `partitions` None an existing topic keeps its count and a new one gets `default`. Raises LogError
    `partition-count` or `other-policy`, and changes nothing, if the existing topic differs from the
    declaration.
    """
    _check_policy(name, config, table=table)
    settings = {**(TABLE_DEFAULTS if table else EVENT_DEFAULTS), **config}
    found = find_topic(log, name)
    if found is None:
        try:
            return log.create(TopicSpec(name, default if partitions is None else partitions, settings))
        except LogError:
            # Another process may have created it in the meantime, with its own partition count.
            found = find_topic(log, name)
            if found is None:
                raise
    check_topic(found, table=table, partitions=partitions)
    return found


def find_topic(log: Log, name: str) -> TopicInfo | None:
    """Return the topic, or None if it does not exist."""
    try:
        return log.describe(name)
    except LogError as error:
        if error.code != "no-such-topic":
            raise
        return None


def check_topic(info: TopicInfo, *, table: bool, partitions: int | None = None) -> None:
    """Raise unless the topic is of this kind and has this many partitions."""
    if info.compacts != table:
        kinds = ("rows, one per key", "a history of events")
        has, declared = kinds if info.compacts else kinds[::-1]
        raise LogError(
            "other-policy",
            f"topic {info.name!r} has cleanup.policy {info.policy!r}: it holds {has}, not {declared}",
            "use TableTopic (--table) for rows and Topic for events, or another name",
        )
    if partitions is not None and partitions != info.partitions:
        raise LogError(
            "partition-count",
            f"topic {info.name!r} has {info.partitions} partitions, but {partitions} were requested",
            f"declare it with the count that it has, partitions={info.partitions}; or use a topic of another "
            "name",
        )


def check_event_times(info: TopicInfo) -> None:
    """Raise LogError `replaces-times` if the broker replaces the timestamps of the topic's records."""
    if not info.keeps_times:
        raise LogError(
            "replaces-times",
            f"topic {info.name!r} has {TIMES} {info.config[TIMES]!r}: its broker replaces event times",
            f"kafka-configs --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name"
            f" {info.name} --add-config {TIMES}={EVENT_TIMES}; existing records keep the broker's times",
        )


def _check_policy(name: str, config: Mapping[str, str], *, table: bool) -> None:
    policy = config.get(POLICY)
    if policy is not None and ("compact" in policy) != table:
        raise ConfigError(
            "bad-topic-config",
            f"topic {name!r} is declared as {'rows' if table else 'events'}, with cleanup.policy {policy!r}",
            "leave cleanup.policy out, or declare the other kind of topic",
        )
