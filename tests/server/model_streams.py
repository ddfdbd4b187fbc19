"""A client of model streams for tests: reads frames, applies them as a real client does, and writes rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from tests.server.conftest import Client

from tidegate.log.partitioner import partition_for
from tidegate.log.records import Row as LogRow
from tidegate.log.records import to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.models.canonical import digest
from tidegate.models.patch import apply
from tidegate.models.row import ModelRow, encode_stamps
from tidegate.types import TopicPartition

W1 = "/workflows/w1/events"
CHANGELOG = "workflows-workflows-changelog"
NDJSON = {"Accept": "application/x-ndjson"}
Frame = dict[str, Any]
MOST_HEARTBEATS = 5
"""That is more than a minute."""


@dataclass
class Held:
    """What a client holds of one id."""

    token: str | None = None
    state: Any = None
    kinds: list[str] = field(default_factory=list)

    def take(self, frame: Frame) -> None:
        """Apply a frame: it must follow the one before, and lead to the state that it names."""
        self.kinds.append(frame["event"])
        if frame["event"] == "patch":
            assert frame["from"] == self.token, "a gap between two frames"
            self.state = apply(self.state, frame["patch"])
        else:
            assert "from" not in frame
            self.state = frame.get("state")
        self.token = frame["token"]
        if frame["event"] != "gone":
            assert digest(self.state) == frame["digest"]


def lines_of(answer: Any) -> Iterator[Frame]:
    """The frames of a stream of lines. One that sends only heartbeats fails."""
    heartbeats = 0
    for line in answer.iter_lines():
        heartbeats = 0 if line else heartbeats + 1
        assert heartbeats < MOST_HEARTBEATS, "no frame came"
        if line:
            yield json.loads(line)


def events_of(answer: Any) -> Iterator[dict[str, str]]:
    """The events of a stream, field by field; a comment is an event with only a `:`."""
    found: dict[str, str] = {}
    for line in answer.iter_lines():
        if line.startswith(":"):
            yield {"": line}
        elif line:
            name, _, value = line.partition(": ")
            found[name] = value
        elif found:
            yield found
            found = {}


@contextmanager
def following(client: Client, path: str, **options: Any) -> Iterator[Iterator[Frame]]:
    """An open stream."""
    headers = {**NDJSON, **options.pop("headers", {})}
    with client.stream(options.pop("method", "GET"), path, headers=headers, **options) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        yield lines_of(answer)


def follow_until(client: Client, path: str, held: Held, reached: Callable[[Held], bool]) -> None:
    """Take frames until the client holds what it waits for."""
    with following(client, path, params={} if held.token is None else {"hash": held.token}) as frames:
        for frame in frames:
            held.take(frame)
            if reached(held):
                return
    raise AssertionError("the stream ended")


def one_frame(client: Client, path: str, token: str | None = None) -> Frame:
    """The frame for a client that holds a token."""
    params = {"live": "false", **({} if token is None else {"hash": token})}
    with following(client, path, params=params) as frames:
        [frame] = frames
    return frame


def row_of(number: int, size: int = 10) -> ModelRow:
    """A version of a state that has changed as a whole."""
    state = b'{"number":%d,"text":"%b"}' % (number, b"x" * size)
    return ModelRow(life=1, sequence=number, hash="ab", gone=False, state=state, stamps=encode_stamps(number))


def put_row(log: SqliteLog, id: str, row: ModelRow) -> None:
    """Write a row to the changelog, as the task does."""
    key = id.encode()
    partition = TopicPartition(CHANGELOG, partition_for(key, 2))
    log.append(partition, to_batch([LogRow(key, msgspec.msgpack.encode(row), 1)]))
