"""The apps on a log, by their manifests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec

from tidegate.errors import LogError
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.protocol import Log
from tidegate.log.reads import fold, read_to_end
from tidegate.runtime.topics.control import bad_control, read_control
from tidegate.topology.manifest import Manifest
from tidegate.types import Offset, TopicPartition

MANIFEST = "manifest/1"
OURS = (b"attempt/", b"epoch/", b"manifest/", b"plan/", b"stage/", b"stop/")
"""How all keys of a control topic begin."""
OTHERS_SECONDS = 15.0
_CONTROL = "-control"
logger = logging.getLogger("tidegate")


def manifests(log: Log) -> Iterator[Manifest]:
    """Of each app that ever ran here, by its id. A topic that only has such a name is passed over: the first
    record that is not ours ends the reading of it, and one that hides all its records is not waited for long.
    """
    return Manifests(log).all()


class Manifests:
    """For who asks again and again: a control topic is read again when something was written to it."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[str, tuple[tuple[str, int], Manifest | None]] = {}

    def all(self) -> Iterator[Manifest]:
        """By the ids of the apps."""
        before, self._known = self._known, {}
        for topic in sorted(self._log.names()):
            info = find_topic(self._log, topic) if topic.endswith(_CONTROL) else None
            if info is None or info.partitions != 1 or not info.compacts:
                continue
            written = info.uid, self._end(topic)
            seen, manifest = before.get(topic, (None, None))
            if seen != written:
                manifest = self._read(topic, info.starts[0])
            self._known[topic] = written, manifest
            if manifest is not None:
                yield manifest

    def _end(self, topic: str) -> int:
        """-1 for a topic that was deleted meanwhile."""
        partition = TopicPartition(topic, 0)
        try:
            return int(self._log.ends([partition])[partition])
        except LogError as error:
            if error.code != "no-such-topic":
                raise
            return -1

    def _read(self, topic: str, start: int) -> Manifest | None:
        try:
            manifest = _read_other(self._log, TopicPartition(topic, 0), start)
        except LogError as error:
            if error.code not in ("bad-control", "end-not-reached", "no-such-topic"):
                raise
            if error.code != "no-such-topic":
                logger.warning("topic %s is not the control topic of an app: %s", topic, error)
            return None
        return manifest if manifest is not None and names.control(manifest.app) == topic else None


def _read_other(log: Log, partition: TopicPartition, start: int) -> Manifest | None:
    """The manifest in a topic that may be somebody else's, and large. The broker ends a transaction of ours
    long before the patience does."""
    raw: bytes | None = None
    for fetched in read_to_end(log, {partition: Offset(start)}, patience=OTHERS_SECONDS):
        keys, values = (fetched.batch.column(name).to_pylist() for name in ("key", "value"))
        for key, value in zip(keys, values, strict=True):
            if key is None or not key.startswith(OURS):
                raise bad_control(f"a record with the key {key!r:.50}")
            raw = value if key == MANIFEST.encode() else raw
    return _decoded(raw)


def find_manifest(log: Log, app: str) -> Manifest | None:
    """The manifest of the app's newest generation, if it ever ran here."""
    if find_topic(log, names.control(app)) is None:
        return None
    return _decoded(read_control(log, app).entries.get(MANIFEST))


def shown_manifest(log: Log, app: str) -> Manifest | None:
    """The manifest as it shows now, without waiting for open transactions: one may be of a driver that died
    while it took over, and only the next one to take over ends it."""
    if find_topic(log, names.control(app)) is None:
        return None
    raw, _ = fold(log, TopicPartition(names.control(app), 0)).get(MANIFEST.encode(), (None, 0))
    return _decoded(raw)


_manifest = msgspec.json.Decoder(Manifest)


def _decoded(raw: bytes | None) -> Manifest | None:
    try:
        return None if raw is None else _manifest.decode(raw)
    except msgspec.DecodeError as error:
        raise bad_control(f"no manifest: {error}") from error
