"""A project in a folder: written, imported, fingerprinted and removed from memory again."""

from __future__ import annotations

import importlib
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from tidegate.fingerprint import Fingerprint, Fingerprints
from tidegate.fingerprint.project import Project

Files = Mapping[str, str]


class OnlyBelow(Project):
    """The modules below a folder, so that the tests themselves are no part of the project."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = f"{folder}/"

    def owns(self, name: str, file: str) -> bool:
        return (not file or file.startswith(self._folder)) and super().owns(name, file)


def write(folder: Path, files: Files) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@contextmanager
def imported(folder: Path) -> Iterator[Callable[[str], ModuleType]]:
    """Import modules from a folder, then forget all that came from there."""
    sys.path.insert(0, str(folder))
    before = set(sys.modules)
    importlib.invalidate_caches()
    writing, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield importlib.import_module
    finally:
        sys.dont_write_bytecode = writing
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            file = getattr(sys.modules[name], "__file__", None) or ""
            paths = list(getattr(sys.modules[name], "__path__", []))
            if any(str(one).startswith(str(folder)) for one in (file, *paths)):
                del sys.modules[name]
        linecache.clearcache()


def attribute(module: ModuleType, path: str) -> Any:
    found: Any = module
    for name in path.split("."):
        found = getattr(found, name)
    return found


def fingerprint(
    folder: Path, files: Files, root: str = "root", modules: tuple[str, ...] = ("main",)
) -> Fingerprint:
    """Write a project and return the fingerprint of an attribute of its last module."""
    write(folder, files)
    with imported(folder) as load:
        module = [load(name) for name in modules][-1]
        return Fingerprints(project=OnlyBelow(folder)).of(attribute(module, root))
