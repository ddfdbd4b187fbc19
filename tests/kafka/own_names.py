"""A log whose topics and writers are a test's own, on a broker that many tests share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pyarrow as pa
from tests.waiting import wait_for

from tidegate.clock import Clock
from tidegate.log.kafka.log import KafkaLog
from tidegate.log.kafka.reader import KafkaReader
from tidegate.log.kafka.writer import KafkaWriter
from tidegate.log.location import LogLocation
from tidegate.log.protocol import Fetched
from tidegate.log.reads import read_between
from tidegate.log.topic import TopicInfo, TopicSpec
from tidegate.types import Offset, TopicPartition


class OwnNames:
    """In the broker all names have a prefix; callers see the name alone."""

    def __init__(
        self,
        servers: str,
        prefix: str,
        settings: Mapping[str, Any] | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.log = KafkaLog(servers, settings, clock=clock)
        self._prefix = prefix

    def prefixed(self, partition: TopicPartition) -> TopicPartition:
        """A partition under its name in the broker."""
        return TopicPartition(self._prefix + partition.topic, partition.partition)

    def unprefixed(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(partition.topic.removeprefix(self._prefix), partition.partition)

    @property
    def id(self) -> str:
        return self.log.id + self._prefix

    @property
    def location(self) -> LogLocation:
        return self.log.location

    def check(self) -> None:
        self.log.check()

    def create(self, spec: TopicSpec) -> TopicInfo:
        return self._info(self.log.create(TopicSpec(self._prefix + spec.name, spec.partitions, spec.config)))

    def describe(self, name: str) -> TopicInfo:
        return self._info(self.log.describe(self._prefix + name))

    def names(self) -> list[str]:
        return [name.removeprefix(self._prefix) for name in self.log.names() if name.startswith(self._prefix)]

    def delete(self, name: str) -> None:
        self.log.delete(self._prefix + name)

    def ends(
        self, partitions: Iterable[TopicPartition], *, committed: bool = True
    ) -> dict[TopicPartition, Offset]:
        found = self.log.ends([self.prefixed(one) for one in partitions], committed=committed)
        return {self.unprefixed(one): offset for one, offset in found.items()}

    def offset_at(self, partition: TopicPartition, timestamp: int) -> Offset:
        return self.log.offset_at(self.prefixed(partition), timestamp)

    def reader(self, positions: Mapping[TopicPartition, Offset], *, brief: bool = False) -> OwnReader:
        prefixed = {self.prefixed(one): at for one, at in positions.items()}
        return OwnReader(self, self.log.reader(prefixed, brief=brief))

    def writer(self, writer_id: str, *, open_seconds: float | None = None) -> OwnWriter:
        return OwnWriter(self, self.log.writer(self._prefix + writer_id, open_seconds=open_seconds))

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> Offset:
        return self.log.append(self.prefixed(partition), batch)

    def purge(self, partition: TopicPartition, before: Offset) -> None:
        self.log.purge(self.prefixed(partition), before)

    def mirror(self, group: str, positions: Mapping[TopicPartition, Offset]) -> None:
        self.log.mirror(self._prefix + group, {self.prefixed(one): at for one, at in positions.items()})

    def compact(self, topic: str) -> None:
        """Wait until the broker has left no more than one record of each key, but for its newest segment:
        topics that a test compacts are made with `segment.ms` 1."""
        partition = TopicPartition(topic, 0)

        def is_compact() -> bool:
            end = self.ends([partition])[partition]
            keys = [
                key for batch in read_between(self, partition, 0, end) for key in batch.column(2).to_pylist()
            ]
            return len(keys) - len(set(keys)) <= 1

        wait_for(is_compact)

    def upkeep(self) -> None:
        """The broker does it by itself."""

    def close(self) -> None:
        self.log.close()

    def _info(self, info: TopicInfo) -> TopicInfo:
        return TopicInfo(info.name.removeprefix(self._prefix), info.uid, info.config, info.starts)


class OwnReader:
    """A reader by the test's names."""

    def __init__(self, log: OwnNames, reader: KafkaReader) -> None:
        self._log = log
        self._reader = reader

    def poll(self, timeout: float) -> list[Fetched]:
        return [
            Fetched(self._log.unprefixed(one.partition), one.batch, one.next)
            for one in self._reader.poll(timeout)
        ]

    def position(self, partition: TopicPartition) -> Offset:
        return self._reader.position(self._log.prefixed(partition))

    def at_end(self, partition: TopicPartition) -> bool:
        return self._reader.at_end(self._log.prefixed(partition))

    def seek(self, partition: TopicPartition, offset: Offset) -> None:
        self._reader.seek(self._log.prefixed(partition), offset)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._reader.pause([self._log.prefixed(one) for one in partitions])

    def close(self) -> None:
        self._reader.close()


class OwnWriter:
    """A writer by the test's names."""

    def __init__(self, log: OwnNames, writer: KafkaWriter) -> None:
        self._log = log
        self._writer = writer

    def append(self, partition: TopicPartition, batch: pa.RecordBatch) -> None:
        self._writer.append(self._log.prefixed(partition), batch)

    def flush(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        found = self._writer.flush([self._log.prefixed(one) for one in partitions])
        return {self._log.unprefixed(one): offset for one, offset in found.items()}

    def commit(self) -> dict[TopicPartition, Offset]:
        return {self._log.unprefixed(one): offset for one, offset in self._writer.commit().items()}

    def abort(self) -> None:
        self._writer.abort()

    def close(self) -> None:
        self._writer.close()
