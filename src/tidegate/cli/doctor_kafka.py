"""The checks of `tidegate doctor` for a log on Kafka, once its brokers have answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from tidegate.cli.apps import loaded
from tidegate.config.config import Config
from tidegate.log import names
from tidegate.log.location import LogLocation
from tidegate.log.open import kafka_servers
from tidegate.log.positions import CONFIG
from tidegate.log.topic import TopicSpec

if TYPE_CHECKING:
    from tidegate.log.kafka.log import KafkaLog

NO_APP = "tidegate.toml names no app, and permissions depend on its id"


class NotChecked(Exception):  # noqa: N818 - not an error: the reason why a check cannot run
    """Raised by a check that cannot run here."""


def _brokers(config: Config) -> str:
    with _opened(config) as log:
        return f"{log.checkup().brokers()} of cluster {log.id} answer"


def _transactions(config: Config) -> str:
    if config.app is None:
        raise NotChecked(NO_APP)
    writer_id = names.driver_id(loaded(config).id, "doctor")
    with _opened(config) as log, closing(log.writer(writer_id)):
        return f"a writer could be opened as {writer_id!r}"


def _topics(config: Config) -> str:
    if config.app is None:
        raise NotChecked(NO_APP)
    name = f"{loaded(config).id}-doctor"
    with _opened(config) as log:
        log.checkup().may_create(TopicSpec(name, config.partitions, CONFIG))
        return f"a topic {name!r} could be created (a dry run)"


def _copies(config: Config) -> str:
    with _opened(config) as log:
        found = log.checkup().copies()
    if found is None:
        raise NotChecked("this check alone needs the permission DescribeConfigs on the cluster")
    copies, needed = found
    alone = ": if its one broker loses it, it is lost" if copies == 1 else ""
    return f"a new topic gets {copies}, and a write needs {needed} of them in sync{alone}"


def _records(_: Config) -> str:
    from tidegate.log.kafka.bulk import MODULE, bulk

    module, reason = bulk()
    how = f"in the compiled loops of {MODULE}" if module is not None else f"in Python, slower: {reason}"
    return f"read and written {how}"


def _clock(_: Config) -> str:
    raise NotChecked("Kafka's client cannot read a broker's clock; keep all hosts on NTP")


@contextmanager
def _opened(config: Config) -> Iterator[KafkaLog]:
    from tidegate.log.kafka.log import KafkaLog

    location = LogLocation.of(config)
    with closing(KafkaLog(kafka_servers(location.url) or "", location.kafka)) as log:
        yield log


KAFKA_CHECKS: dict[str, Callable[[Config], str]] = {
    "brokers": _brokers,
    "transactions": _transactions,
    "topics": _topics,
    "copies": _copies,
    "records": _records,
    "clocks": _clock,
}
