"""The apps on a log, by their manifests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec

from tidegate import names
from tidegate.errors import LogError
from tidegate.log.ensure import find_topic
from tidegate.log.protocol import Log
from tidegate.log.reads import fold
from tidegate.runtime.control import bad_control, read_control
from tidegate.topology.manifest import Manifest
from tidegate.types import TopicPartition

MANIFEST = "manifest/1"
_CONTROL = "-control"
logger = logging.getLogger("tidegate")


def manifests(log: Log) -> Iterator[Manifest]:
    """Of each app that ever ran here, by its id. A topic that only has such a name is passed over."""
    for topic in sorted(log.names()):
        info = find_topic(log, topic) if topic.endswith(_CONTROL) else None
        if info is None or info.partitions != 1 or not info.compacts:
            continue
        try:
            manifest = find_manifest(log, topic.removesuffix(_CONTROL))
        except LogError as error:
            if error.code != "bad-control":
                raise
            logger.warning("%s", error)
            continue
        if manifest is not None and names.control(manifest.app) == topic:
            yield manifest


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


def _decoded(raw: bytes | None) -> Manifest | None:
    try:
        return None if raw is None else msgspec.json.decode(raw, type=Manifest)
    except msgspec.DecodeError as error:
        raise bad_control(f"no manifest: {error}") from error
