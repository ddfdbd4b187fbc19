"""The versions of installed distributions that modules belong to."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Iterable


def versions(modules: Iterable[str]) -> dict[str, str]:
    """Return the distributions that dotted names belong to, with their versions, sorted. A name that no
    distribution claims is left out: it may be a module that was added to the path by hand."""
    found: dict[str, str] = {}
    for top in sorted({name.partition(".")[0] for name in modules}):
        found.update(_distributions(top))
    return dict(sorted(found.items()))


@functools.lru_cache(maxsize=1024)
def _distributions(top: str) -> dict[str, str]:
    try:
        return {top: importlib.metadata.version(top)}
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return {one.name: one.version for one in _by_module().get(top, [])}


@functools.lru_cache(maxsize=1)
def _by_module() -> dict[str, list[importlib.metadata.Distribution]]:
    """Return the distributions of each top-level module: several for a namespace package. Reading the list of
    files of every distribution takes a while: only for modules whose distribution has another name."""
    found: dict[str, list[importlib.metadata.Distribution]] = {}
    for one in importlib.metadata.distributions():
        listed = one.read_text("RECORD") or one.read_text("installed-files.txt") or ""
        tops = {line.partition(",")[0].partition("/")[0].partition(".")[0] for line in listed.splitlines()}
        for top in sorted(tops - {""}):
            found.setdefault(top, []).append(one)
    return found
