"""The apps on a log."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate import names
from tidegate.log.protocol import Log
from tidegate.runtime.start import find_manifest
from tidegate.topology.manifest import Manifest

_CONTROL = "-control"


def manifests(log: Log) -> Iterator[Manifest]:
    """Of each app that ever ran here, by its id."""
    for topic in sorted(log.names()):
        if topic.endswith(_CONTROL):
            manifest = find_manifest(log, topic.removesuffix(_CONTROL))
            if manifest is not None and names.control(manifest.app) == topic:
                yield manifest
