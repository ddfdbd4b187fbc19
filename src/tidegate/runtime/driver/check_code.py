"""Check that an executor has the code that the driver has.

The package of the app is shipped and compared as a whole (`spark/ship`); other packages of the project are
imported from wherever the executor finds them. Two versions of the logic must not write to one store.

Compared is each unit of source that both sides have. The driver may have loaded modules that an executor does
not need, such as the script that started it, so a unit that only one side has is no difference by itself: a
function that uses another one differs in its own text.
"""

from __future__ import annotations

from tidegate.errors import ConfigError
from tidegate.fingerprint import ALGORITHM
from tidegate.log.protocol import Log
from tidegate.runtime.topics.manifests import code_of, visible_control
from tidegate.topology.code import Code
from tidegate.topology.graph import Topology
from tidegate.topology.manifest import Manifest
from tidegate.topology.node_entries import node_entries


def check_code(topology: Topology, log: Log, manifest: Manifest) -> None:
    """Raise ConfigError `other-code` for a unit of source that differs from the one that the generation was
    started with."""
    if manifest.algorithm != ALGORITHM:
        return
    started = code_of(visible_control(log, manifest.app), manifest.generation).units
    code = Code(topology.module)
    node_entries(topology, {node: number for number, node in enumerate(topology.nodes)}, code)
    for name, here in code.entry().units.items():
        there = started.get(name, here)
        if there.digest != here.digest:
            raise ConfigError(
                "other-code",
                f"this executor imports another version of {name} than the driver: {here.digest} at "
                f"{here.location} here, {there.digest} at {there.location} there",
                "install the driver's version there, or put the module into the package of the app, which is "
                "shipped",
            )
