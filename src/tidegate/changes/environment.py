"""Versions of Python, of packages and of the fingerprints' algorithm that differ from those before."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.changes.changes import EnvironmentChange
from tidegate.topology.code import CodeEntry
from tidegate.topology.manifest import Manifest

Mentioned = dict[str, tuple[str, set[str]]]
"""The version of each package and the components whose code mentions it."""


def environment_changes(
    before: Manifest, after: Manifest, code_before: CodeEntry, code_after: CodeEntry
) -> list[EnvironmentChange]:
    """Return what the app runs on in another version than before. A package that only one of the two versions
    of the app mentions is not listed: then its code differs, too."""
    found = list(_packages(_mentioned(before, code_before), _mentioned(after, code_after)))
    if before.python and before.python != after.python:
        found.insert(0, EnvironmentChange("python", "Python", before.python, after.python))
    if before.algorithm and before.algorithm != after.algorithm:
        numbers = str(before.algorithm), str(after.algorithm)
        found.insert(0, EnvironmentChange("algorithm", "fingerprints", *numbers))
    return found


def _packages(old: Mentioned, new: Mentioned) -> Iterator[EnvironmentChange]:
    for name in sorted(old.keys() & new.keys()):
        users = old[name][1] & new[name][1]
        if old[name][0] != new[name][0] and users:
            yield EnvironmentChange("package", name, old[name][0], new[name][0], sorted(users))


def _mentioned(manifest: Manifest, code: CodeEntry) -> Mentioned:
    found: Mentioned = {}
    for id, component in manifest.components.items():
        numbers = (number for sub in component.subtopologies for number in sub.nodes)
        for digest in {digest for number in numbers for digest in manifest.nodes[number].code.values()}:
            if digest in code.fingerprints:
                for name, version in code.fingerprints[digest].packages.items():
                    found.setdefault(name, (version, set()))[1].add(id)
    return found
