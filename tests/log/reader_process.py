"""A reader that may be killed at any time, in a process of its own.

It follows all partitions and writes a line for each record: topic, partition, offset, checksum of its
bytes, transaction. A line `=` means: up to here, what was read was all that there was at one moment. The
lines are its persisted position, too. The journal says `open` when it is about to read. Told to stop, it
reads to the end of that moment and leaves with 0.
"""

from __future__ import annotations

import zlib
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path

from tests.log.workload import EVERYWHERE, appender, obey_parent

from tidegate.log.protocol import Fetched
from tidegate.log.records import ReadRow, rows_of
from tidegate.log.sqlite.log import SqliteLog
from tidegate.types import Offset, TopicPartition


def follow(orders: Connection, path: Path, output: Path, journal: Path) -> int:
    """Follow the log until it is stopped. Returns what the process leaves with."""
    stop = obey_parent(orders)
    positions = _positions(output)
    write = appender(output)
    with closing(SqliteLog(path)) as log, closing(log.reader(positions)) as reader:
        appender(journal)("open\n")
        ends: dict[TopicPartition, Offset] = {}
        while not ends or any(reader.position(partition) < end for partition, end in ends.items()):
            if stop.is_set() and not ends:
                ends = log.ends(EVERYWHERE)
            fetched = reader.poll(0.05)
            lines = [line for one in fetched for line in _lines(one)]
            if fetched and all(reader.at_end(partition) for partition in EVERYWHERE):
                lines.append("=\n")
            write("".join(lines))
    return 0


def _positions(output: Path) -> dict[TopicPartition, Offset]:
    """Behind what the whole lines tell; half a line at the end is cut off."""
    found = dict.fromkeys(EVERYWHERE, Offset(0))
    data = output.read_bytes() if output.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    if whole != data:
        output.write_bytes(whole)
    for line in whole.decode().splitlines():
        if line != "=":
            topic, partition, offset, *_ = line.split()
            found[TopicPartition(topic, int(partition))] = Offset(int(offset) + 1)
    return found


def _lines(fetched: Fetched) -> list[str]:
    topic, partition = fetched.partition
    return [
        f"{topic} {partition} {row.offset} {checksum(row)} {transaction_of(row)}\n"
        for row in rows_of(fetched.batch)
    ]


def checksum(row: ReadRow) -> int:
    """Over everything that a record holds."""
    return zlib.crc32(repr(row).encode())


def transaction_of(row: ReadRow) -> str:
    """Which transaction wrote it: named by a header in the table, whose values may be null, else the key."""
    found = row.headers[0][1] if row.headers else row.key
    assert found is not None
    return found.decode()
