"""Dead letters and records as bytes: what the tests of failing records share."""

from __future__ import annotations

from tests.runtime.stories import START

from tidegate.log.records import ReadRow, Row, rows_of, to_batch
from tidegate.testing.driver import Driver
from tidegate.types import Offset, TopicPartition


def append_raw(
    d: Driver, topic: str, key: bytes | None, value: bytes | None, at: int = START, **headers: bytes
) -> None:
    rows = [Row(key, value, at, tuple(headers.items()))]
    d.log.append(TopicPartition(topic, 0), to_batch(rows))


def dead_letter(d: Driver, app: str = "errors") -> tuple[ReadRow, dict[str, str]]:
    """The only dead letter, as it lies in the log, and its headers by name."""
    partition = TopicPartition(f"{app}-dead-letters", 0)
    reader = d.log.reader({partition: Offset(0)})
    (record,) = [row for fetched in reader.poll(0) for row in rows_of(fetched.batch)]
    reader.close()
    reported = {name: (value or b"").decode() for name, value in record.headers}
    return record, reported
