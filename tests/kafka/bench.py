"""The bench of the tests of state, on a real broker: the same tests stand on it as on the embedded log."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from tests.kafka.clients import configure
from tests.kafka.own_names import OwnNames
from tests.state.bench import Bench
from tests.state.ground import PAGE, Ground
from tests.waiting import wait_for

from tidegate.clock import ManualClock
from tidegate.errors import LogError
from tidegate.log.kafka import reader
from tidegate.log.records import Row, to_batch
from tidegate.state.builder import StoreBuilder
from tidegate.types import TopicPartition

EAGER = {"segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
"""The broker compacts all but the newest segment, and each marker begins a new one."""


ONE_SEGMENT = {"segment.ms": str(2**63 - 1)}
"""Until then: a fetch brings no more than there is in a segment, and records of old times begin new ones."""


class KafkaBench(Bench):
    """Compaction is the broker's: it is made eager, and waited for."""

    def __init__(self, servers: str, ground: KafkaGround, partitions: int) -> None:
        clock = ManualClock()
        self.servers = servers
        self.own = OwnNames(servers, ground.prefix, {"topics": ONE_SEGMENT}, clock=clock)
        super().__init__(ground.folder / "state", self.own, clock, partitions=partitions)

    def compact(self, store: StoreBuilder[Any]) -> None:
        def is_compact() -> bool:
            keys = [row.key for row in self.read(self.changelog_of(store))]
            return len(keys) == len(set(keys))

        self._wait_for_the_cleaner(store, is_compact)

    def cut(self, store: StoreBuilder[Any], before: int) -> None:
        """A broker cuts no topic that is compacted: its settings must have been changed."""
        topic = self.own.prefixed(self.changelog_of(store)).topic
        configure(self.servers, topic, {"cleanup.policy": "delete"})
        wait_for(lambda: self._is_cut(store, before))
        configure(self.servers, topic, {"cleanup.policy": "compact"})

    def _is_cut(self, store: StoreBuilder[Any], before: int) -> bool:
        """A broker applies a new setting shortly after it was acknowledged."""
        try:
            super().cut(store, before)
        except LogError as error:
            if error.code != "refused-by-broker":
                raise
            return False
        return True

    def forget(self, store: StoreBuilder[Any], millis: int) -> None:
        """The broker has a clock of its own: the stores that forget do so after a second."""
        self.clock.advance(millis)
        changelog = self.changelog_of(store)
        self._wait_for_the_cleaner(store, lambda: all(row.value is not None for row in self.read(changelog)))
        self.compact(store)

    def tidy(self, store: StoreBuilder[Any]) -> None:
        """From here on the broker compacts whenever it likes."""
        self._make_eager(self.changelog_of(store))

    def _wait_for_the_cleaner(self, store: StoreBuilder[Any], done: Callable[[], bool]) -> None:
        """It cleans only where something new came, so a record is written that no reader sees."""
        changelog = self.changelog_of(store)
        self._make_eager(changelog)
        with closing(self.log.writer("nobody")) as writer:

            def is_done() -> bool:
                writer.append(changelog, to_batch([Row(b"nothing", b"", 5)]))
                writer.flush([changelog])
                writer.abort()
                return done()

            wait_for(is_done, every=0.1)

    def _make_eager(self, partition: TopicPartition) -> None:
        configure(self.servers, self.own.prefixed(partition).topic, EAGER)


@dataclass(frozen=True)
class KafkaGround(Ground):
    """With the log on a broker that is shared: all names begin with a prefix."""

    servers: str
    prefix: str

    def bench(self, partitions: int = 1) -> KafkaBench:
        return KafkaBench(self.servers, self, partitions)

    def part(self, name: str) -> KafkaGround:
        return replace(self, folder=self.folder / name, prefix=f"{self.prefix}{name}-")

    def small_pages(self) -> AbstractContextManager[Any]:
        return mock.patch.object(reader, "PAGE_RECORDS", PAGE)
