"""The apps on a log."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from tidegate import names
from tidegate.errors import LogError
from tidegate.log.ensure import find_topic
from tidegate.log.protocol import Log
from tidegate.runtime.start import find_manifest
from tidegate.topology.manifest import Manifest

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
