r"""The real Kafka Streams as an oracle: the same records through a small topology, and what came out.

    with Oracle(kafka.bootstrap, "count", "my-app", ["words"], "counts", tmp_path) as oracle:
        oracle.catch_up()
        assert oracle.table() == {"a": 3}

| topology | what it does |
|---|---|
| `filter` | keeps values that do not start with `x`; drops nulls |
| `count` | the value becomes the key, through a repartition topic; counts per key, a long |
| `aggregate` | per key, from 0, `sum = (sum * 31 + int(value)) % 1_000_003`, a long: order shows |
| `[left-\|outer-]table-table` | rows of two tables, `left\|right`; a missing side is `null` |
| `[left-]stream-table` | each record of the first topic, nulls dropped, with the row of the second |

Rows of the two joined topics meet in the order of their timestamps only if all is in the topics before the
start: give each record a timestamp of its own. Input and output topics must exist; joined topics need equal
numbers of partitions. Every change is written, there is no cache.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.kafka.clients import Message, read

from tidegate.testing.broker.java import run_java

SOURCE = Path(__file__).with_name("Oracle.java")
NUMBERS = {"count", "aggregate"}


class Oracle:
    """One topology that runs from construction until `stop` or `kill`.

    Made again with the same id and folder it goes on where the last one stood; with another folder it
    restores its state from the changelog.
    """

    def __init__(
        self, bootstrap: str, topology: str, app_id: str, inputs: Sequence[str], output: str, folder: Path
    ) -> None:
        self._bootstrap = bootstrap
        self._app_id = app_id
        self._inputs = list(inputs)
        self._output = output
        self._numbers = topology in NUMBERS
        arguments = [topology, bootstrap, app_id, str(folder / "state"), output, *inputs]
        self.program = run_java([SOURCE], arguments, folder)

    def wait_running(self, timeout: float = 60.0) -> None:
        """Return once its tasks are assigned and restored."""
        self.program.wait_for(lambda event: event.get("state") == "RUNNING", timeout)

    def catch_up(self, timeout: float = 60.0) -> None:
        """Return once everything that is in the input topics now has been processed and committed.

        1. its group has committed past the last record of each input partition; what these records caused in
           repartition topics was committed with that;
        2. then the same for the repartition topics; the output was committed with that.
        """
        end = time.monotonic() + timeout
        self._wait_committed(self._inputs, end)
        topics = AdminClient({"bootstrap.servers": self._bootstrap}).list_topics(timeout=30).topics
        inner = [n for n in topics if n.startswith(f"{self._app_id}-") and n.endswith("-repartition")]
        self._wait_committed(inner, end)

    def records(self) -> list[tuple[str, str | int | None]]:
        """The whole output, partition by partition."""
        return [(self._key(found), self._value(found)) for found in read(self._bootstrap, self._output)]

    def table(self) -> dict[str, str | int]:
        """The output as a table: the last value of each key, tombstones left out."""
        last = dict(self.records())
        return {key: value for key, value in last.items() if value is not None}

    def stop(self) -> None:
        """SIGTERM: it commits, and leaves its group."""
        self.program.stop()

    def kill(self) -> None:
        """SIGKILL: its open transaction is aborted when the next one comes, or by its time-out (10 s)."""
        self.program.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _wait_committed(self, topics: Sequence[str], end: float) -> None:
        """Ends of partitions would not do: markers of transactions stand there that nobody commits past."""
        wanted: dict[tuple[str, int], int] = {}
        for topic in topics:
            for found in read(self._bootstrap, topic):
                wanted[topic, found.partition] = found.offset + 1
        while missing := self._behind(wanted):
            if not self.program.running or time.monotonic() > end:
                raise self.program.failed(f"did not process all of {sorted(missing)}")
            time.sleep(0.1)

    def _behind(self, wanted: Mapping[tuple[str, int], int]) -> set[tuple[str, int]]:
        """The partitions whose committed offset is below the wanted one."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": self._app_id})
        try:
            found = consumer.committed([TopicPartition(*one) for one in wanted], timeout=30) if wanted else []
            offsets = {(one.topic, one.partition): one.offset for one in found}
            return {one for one, offset in wanted.items() if offsets[one] < offset}
        finally:
            consumer.close()

    @staticmethod
    def _key(found: Message) -> str:
        return (found.key or b"").decode()

    def _value(self, found: Message) -> str | int | None:
        if found.value is None:
            return None
        return int(struct.unpack(">q", found.value)[0]) if self._numbers else found.value.decode()
