"""Is the result right? A fast engine that counts wrong is not compared with anything."""

from __future__ import annotations

from benchmarks.peers.peer import Peer
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.route import partitions_of


class WrongResultError(Exception):
    """An engine counted wrong, or did not come to an end."""


def check_counts(log: Log, output: str, peer: Peer, records: int, keys: int) -> None:
    """The final counts of all keys, as a read_committed reader sees them, add up to the records sent."""
    last: dict[bytes, bytes] = {}
    partitions = partitions_of(log.describe(output))
    ends = log.ends(partitions)
    for partition in partitions:
        for batch in read_between(log, partition, 0, ends[partition]):
            last.update(zip(batch.column(2).to_pylist(), batch.column(3).to_pylist(), strict=True))
    total = sum(peer.count_of(value) for value in last.values())
    if (total, len(last)) != (records, keys):
        raise WrongResultError(
            f"{peer.name} counted {total:,} records of {len(last):,} keys; sent were {records:,} of {keys:,}"
        )
