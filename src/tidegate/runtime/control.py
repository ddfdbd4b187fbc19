"""The control topic of an app: epochs, plans, manifests. One partition, the newest record of a key counts."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidegate import names
from tidegate.errors import LogError
from tidegate.log.protocol import Log, Writer
from tidegate.log.reads import read_to_end
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.types import Offset, TopicPartition

CONFIG = {"cleanup.policy": "compact", "message.timestamp.after.max.ms": str(2**63 - 1)}


class Plan(msgspec.Struct, frozen=True):
    """Which writers an epoch has."""

    epoch: int
    writers: list[str]


def control_topic(app: str) -> TopicSpec:
    """The topic to create."""
    return TopicSpec(names.control(app), 1, CONFIG)


def read_control(log: Log, app: str) -> dict[str, bytes]:
    """What is in force. Open your writer first, then read: see `read_to_end`."""
    partition = TopicPartition(names.control(app), 0)
    start = log.describe(partition.topic).starts[0]
    found: dict[str, bytes] = {}
    for fetched in read_to_end(log, {partition: Offset(start)}):
        keys, values = fetched.batch.column(2).to_pylist(), fetched.batch.column(3).to_pylist()
        for key, value in zip(keys, values, strict=True):
            if value is None:
                found.pop(key.decode(), None)
            else:
                found[key.decode()] = value
    return found


def write_control(writer: Writer, app: str, entries: Mapping[str, bytes], now: int) -> None:
    """Add to the writer's transaction."""
    rows = [Row(key.encode(), value, now) for key, value in entries.items()]
    writer.append(TopicPartition(names.control(app), 0), to_batch(rows))


def read_plan(control: Mapping[str, bytes], role: str) -> Plan:
    """The last plan of a role; epoch 0 before the first."""
    raw = control.get(f"plan/{role}")
    if raw is None:
        return Plan(0, [])
    try:
        return msgspec.json.decode(raw, type=Plan)
    except msgspec.DecodeError as error:
        raise LogError(
            "bad-control", f"the control topic holds no plan: {error}", "only tidegate may write it"
        ) from error
