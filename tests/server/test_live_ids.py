"""Ids of streams over many partitions: each is long, so there are few of them, and none is missed."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from tests.server.conftest import Client, Serve

from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.server import live
from tidegate.types import TopicPartition

PARTITIONS = 1_000
EACH = 5
ALL = {(number, offset) for number in range(PARTITIONS) for offset in range(EACH)}
PATH = "/live?topic=many&from=start"
EVENT = re.compile(rb"id: (?P<id>[^\n]*)\nevent: records\ndata: (?P<data>[^\n]*)\n\n")


@pytest.fixture(autouse=True)
def many(log: SqliteLog) -> None:
    """A topic with many partitions."""
    log.create(TopicSpec("many", PARTITIONS))


@pytest.fixture
def filled(log: SqliteLog, many: None) -> None:
    """Some small records in each partition."""
    with closing(log.writer("filling")) as writer:
        for number in range(PARTITIONS):
            rows = [Row(b"k%d" % number, b"v", offset) for offset in range(EACH)]
            writer.append(TopicPartition("many", number), to_batch(rows))
        writer.commit()


def whole(data: bytes) -> list[tuple[str, list[tuple[int, int]]]]:
    """The events that are in it from end to end, as a browser sees them: their ids and their records."""
    return [
        (found["id"].decode(), [(one["partition"], one["offset"]) for one in json.loads(found["data"])])
        for found in EVENT.finditer(data)
    ]


def chunks(answer: Any, cut: int | None = None) -> Iterator[bytes]:
    """What came so far, again and again; of more than `cut` bytes nothing is seen."""
    data = b""
    for chunk in answer.iter_bytes():
        data += chunk
        yield data[:cut]


@pytest.mark.usefixtures("filled")
def test_ids_are_a_small_part_of_a_stream_over_many_partitions(client: Client) -> None:
    data, found = b"", whole(b"")
    with client.stream("GET", PATH) as answer:
        for data in chunks(answer):
            found = whole(data)
            if sum(len(records) for _, records in found) >= len(ALL):
                break
    assert {one for _, records in found for one in records} == ALL
    assert sum(len(place) for place, _ in found) < len(data) / live.RECORDS_PER_ID
    assert len(data) < 1_000_000, "with an id for each record it was 30 MB"


@pytest.mark.usefixtures("filled")
def test_a_stream_that_is_cut_within_an_event_goes_on_without_loss_or_repetition(serve: Serve) -> None:
    """I14, at another server each time; cut after any byte."""
    clients = [serve(), serve()]
    seen: list[tuple[int, int]] = []
    last: str | None = None
    data, turn = b"", 0
    for turn in range(100):
        headers = {} if last is None else {"Last-Event-ID": last}
        cut = 60_000 + 7_001 * turn
        with clients[turn % 2].stream("GET", PATH, headers=headers) as answer:
            assert answer.status_code == 200
            for data in chunks(answer, cut):
                if len(data) == cut or len(seen) + sum(len(one) for _, one in whole(data)) == len(ALL):
                    break
        for place, records in whole(data):
            seen += records
            last = place
        if len(seen) >= len(ALL):
            break
    assert turn > 3
    assert len(seen) == len(ALL)
    assert set(seen) == ALL


def test_records_that_come_one_by_one_share_ids_that_are_long(client: Client, log: SqliteLog) -> None:
    ended = threading.Event()
    found, seconds = whole(b""), 0.0

    def send() -> None:
        number = 0
        while not ended.is_set():
            log.append(TopicPartition("many", number % PARTITIONS), to_batch([Row(b"k", b"v", number)]))
            number += 1

    sending = threading.Thread(target=send)
    sending.start()
    try:
        with client.stream("GET", PATH) as answer:
            began = time.monotonic()
            for data in chunks(answer):
                found = whole(data)
                if len(found) >= 5:
                    break
            seconds = time.monotonic() - began
    finally:
        ended.set()
        sending.join()
    placed = [one for _, records in found for one in records]
    assert len(placed) == len(set(placed)) > 5
    allowed = live.ID_BYTES_PER_SECOND * seconds + 2 * max(len(place) for place, _ in found)
    full = sum(len(records) for _, records in found) * 200 / live.RECORDS_PER_ID
    assert sum(len(place) for place, _ in found) < allowed + full
