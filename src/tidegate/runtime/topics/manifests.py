"""Find the apps on a log by their manifests."""

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
KEY_PREFIXES = (b"attempt/", b"epoch/", b"manifest/", b"plan/", b"stage/", b"stop/")
"""The prefixes of all keys of a control topic."""
FOREIGN_TOPIC_SECONDS = 15.0
_CONTROL = "-control"
logger = logging.getLogger("tidegate")


def manifests(log: Log) -> Iterator[Manifest]:
    """Yield the manifest of each app that ever ran here, ordered by id. A topic that merely has such a name
    is skipped: reading it ends at the first record that tidegate did not write, or after a short time if an
    open transaction hides its records."""
    return Manifests(log).all()


class Manifests:
    """Returns manifests repeatedly, and reads a control topic only if it was written to since."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[str, tuple[tuple[str, int], Manifest | None]] = {}

    def all(self) -> Iterator[Manifest]:
        """Yield the manifests, ordered by app id."""
        before, self._known = self._known, {}
        for topic in sorted(self._log.names()):
            info = find_topic(self._log, topic) if topic.endswith(_CONTROL) else None
            if info is None or info.partitions != 1 or not info.compacts:
                continue
            written = info.uid, self._end(topic)
            known, manifest = before.get(topic, (None, None))
            if known != written:
                manifest = self._read(topic, info.starts[0])
            self._known[topic] = written, manifest
            if manifest is not None:
                yield manifest

    def _end(self, topic: str) -> int:
        """Return the end of a topic, -1 if it was deleted meanwhile."""
        partition = TopicPartition(topic, 0)
        try:
            return int(self._log.ends([partition])[partition])
        except LogError as error:
            if error.code != "no-such-topic":
                raise
            return -1

    def _read(self, topic: str, start: int) -> Manifest | None:
        try:
            manifest = _read_foreign(self._log, TopicPartition(topic, 0), start)
        except LogError as error:
            if error.code not in ("bad-control", "end-not-reached", "no-such-topic"):
                raise
            if error.code != "no-such-topic":
                logger.warning("topic %s is not the control topic of an app: %s", topic, error)
            return None
        return manifest if manifest is not None and names.control(manifest.app) == topic else None


def _read_foreign(log: Log, partition: TopicPartition, start: int) -> Manifest | None:
    """Return the manifest in a topic that may belong to another program and be large. The patience is longer
    than a broker keeps a transaction of tidegate open."""
    raw: bytes | None = None
    for fetched in read_to_end(log, {partition: Offset(start)}, patience=FOREIGN_TOPIC_SECONDS):
        keys, values = (fetched.batch.column(name).to_pylist() for name in ("key", "value"))
        for key, value in zip(keys, values, strict=True):
            if key is None or not key.startswith(KEY_PREFIXES):
                raise bad_control(f"a record with the key {key!r:.50}")
            raw = value if key == MANIFEST.encode() else raw
    return _decoded(raw)


def find_manifest(log: Log, app: str) -> Manifest | None:
    """Return the manifest of the app's newest generation, or None if the app never ran here."""
    if find_topic(log, names.control(app)) is None:
        return None
    return _decoded(read_control(log, app).entries.get(MANIFEST))


def visible_manifest(log: Log, app: str) -> Manifest | None:
    """Return the manifest that is visible now, without waiting for open transactions: one may belong to a
    driver that died during a takeover, and only the next takeover ends it."""
    if find_topic(log, names.control(app)) is None:
        return None
    raw, _ = fold(log, TopicPartition(names.control(app), 0)).get(MANIFEST.encode(), (None, 0))
    return _decoded(raw)


_manifest = msgspec.json.Decoder(Manifest)


def _decoded(raw: bytes | None) -> Manifest | None:
    try:
        return None if raw is None else _manifest.decode(raw)
    except msgspec.DecodeError as error:
        raise bad_control(f"an invalid manifest: {error}") from error
