"""Ship the user's package to the executors, and check that they import the version that was shipped.

No user function is pickled: an executor imports the app by its name. What it imports must be what the driver
has, or two versions of the logic would write to one store.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import importlib.util
import zipfile
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from tidegate.errors import ConfigError

SHIPPED = (".py", ".avsc", ".json")
"""Sources, and the schemas that they read."""


def fingerprint(app: str) -> str:
    """A hash over the sources of the package (or the one module) that holds the app `module:name`."""
    digest = hashlib.sha256()
    for name, data in _sources(app.partition(":")[0]):
        digest.update(f"{len(name)}:{name}:{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def check_fingerprint(app: str, sent: str) -> None:
    """Raise unless the version imported here equals the driver's."""
    found = fingerprint(app)
    if found != sent:
        raise ConfigError(
            "other-package",
            f"this executor imports another version of {app.partition(':')[0]!r} than the driver",
            "remove the installed copy, or install the same; in a notebook restart the session",
        )


def zip_package(app: str, folder: Path) -> Path:
    """The package as a zip file that Spark can ship: the same file for the same sources, since a session
    takes each name once."""
    path = folder / f"tidegate-{fingerprint(app)[:16]}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _sources(app.partition(":")[0]):
            archive.writestr(zipfile.ZipInfo(name), data)
    return path


def _sources(module: str) -> Iterator[tuple[str, bytes]]:
    """Each file of the outermost package of a module, with its path."""
    top = module.partition(".")[0]
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        raise ConfigError("no-such-app", f"module {top!r} has no source file", "put the app into a module")
    if spec.submodule_search_locations is None:
        loader: Any = spec.loader
        yield f"{top}.py", loader.get_data(spec.origin)
        return
    yield from sorted(_walk(importlib.resources.files(top), top))


def _walk(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _walk(entry, f"{path}/{entry.name}")
        elif entry.name.endswith(SHIPPED):
            yield f"{path}/{entry.name}", entry.read_bytes()
