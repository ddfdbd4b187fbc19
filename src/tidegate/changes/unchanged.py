"""Check at a start that an app is the one that ran before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from tidegate.changes.compare import compare
from tidegate.changes.refusal import refusal
from tidegate.errors import UpgradeError
from tidegate.topology.code import Code, CodeEntry
from tidegate.topology.generations import continued, is_same_app
from tidegate.topology.graph import Topology
from tidegate.topology.growth import grown
from tidegate.topology.identity import identified
from tidegate.topology.manifest import Manifest, make_manifest
from tidegate.topology.older import brought_up_to_date

CodeBefore = Callable[[], CodeEntry]
"""Reads the code of the active generation. It is called only if something differs."""


def check_unchanged(topology: Topology, known: Manifest, code: Code, code_before: CodeBefore) -> None:
    """Raise UpgradeError `changed-app` or ConfigError `id-taken` if the topology differs from the known
    manifest; partition counts of topics are not compared."""
    # A topic that the known app did not have counts as one without partitions: it differs by its name.
    counts = defaultdict(int, {**known.sources, **known.sinks})
    found = identified(topology, known)
    made = make_manifest(found, counts, existing=known.internal_partitions, code=code)
    reconciled_manifest(found, known, made, counts, code, code_before)


def check_not_former(topology: Topology, known: Manifest, former: Sequence[Manifest], code: Code) -> None:
    """Raise UpgradeError `former-generation` if the topology is a former generation of the app, and not the
    active one. It never replaces the active one by itself: else two processes that start different versions
    of the app whenever it ends would replace each other forever."""
    if _is_generation(topology, known, code):
        return
    for manifest in former:
        if _is_generation(topology, manifest, code):
            raise UpgradeError(
                "former-generation",
                f"app {known.app!r} runs generation {known.generation}, and this is the code of generation "
                f"{manifest.generation}",
                f"start the code of generation {known.generation}; or go back to this one: tidegate rollback",
            )


def _is_generation(topology: Topology, manifest: Manifest, code: Code) -> bool:
    counts = defaultdict(int, {**manifest.sources, **manifest.sinks})
    found = identified(topology, manifest)
    made = make_manifest(found, counts, existing=manifest.internal_partitions, code=code)
    return is_same_app(made, manifest)


def reconciled_manifest(
    topology: Topology,
    known: Manifest,
    made: Manifest,
    partitions: Mapping[str, int],
    code: Code,
    code_before: CodeBefore,
) -> Manifest:
    """Return the known manifest with the current partitions of its sources, and what is only displayed as it
    is now. Raises as `check_unchanged` if it then differs from `made`."""
    grown(topology, known, partitions)
    found = brought_up_to_date(topology, known, made)
    if not compare(found, made, CodeEntry(), CodeEntry()).nothing:
        raise refusal(compare(found, made, code_before(), code.entry()))
    return continued(made, found)
