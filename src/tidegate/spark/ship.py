"""Ship the user's package to the executors, and make them import the version that was shipped.

No user function is pickled: an executor imports the app by its name. It must import the driver's version, or
two versions of the logic would write to one store. Two things can prevent that: a session keeps every zip
file that was added to its import path, also of older versions; and Spark runs one slot after the other in the
same Python process, which keeps the modules that it has imported.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.resources
import importlib.util
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from pyspark import SparkContext

SHIPPED = (".py", ".avsc", ".json")
"""Sources, and the schemas that they read."""
ZIP = "tidegate-app-{}.zip"

_imported: dict[str, str] = {}
"""The fingerprint of the version that this process imported for a slot, by package."""


def fingerprint(app: str) -> str:
    """Return a hash of the sources of the package (or the one module) that holds the app `module:name`."""
    digest = hashlib.sha256()
    for name, data in _sources(_package_of(app)):
        digest.update(f"{len(name)}:{name}:{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def ship(app: str, context: SparkContext) -> None:
    """Add the app's package to the import path of the session's executors, not of this process: a module that
    the user edits and imports again must come from its own folder, not from the zip file.

    The file stays until this process ends: each task of the session, also of the user's own queries, may
    fetch all files that were ever added, and fails if one is gone."""
    path = str(zip_package(app, Path(_folder().name)))
    before = list(sys.path)
    try:
        context.addPyFile(path)  # prepends it to sys.path
    finally:
        sys.path[:] = before


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tidegate-ship-")


def import_version(app: str, sent: str) -> None:
    """Make the next import of the app's package find the version that the driver sent.

    Raises ConfigError `other-package` if it would find another.
    """
    package = _package_of(app)
    # Spark adds the zip files of all apps and versions of a session again before each task. The right one
    # must come first, also before the working folder, which the user may have edited since.
    shipped = [path for path in sys.path if Path(path).name == _zip_name(sent)]
    sys.path[:] = shipped + [path for path in sys.path if not _is_app_zip(path)]
    if _imported.get(package) != sent:
        _imported.pop(package, None)
        for name in [name for name in sys.modules if name.partition(".")[0] == package]:
            del sys.modules[name]
        importlib.invalidate_caches()
    if fingerprint(app) != sent:
        raise ConfigError(
            "other-package",
            f"this executor imports another version of {package!r} than the driver",
            "remove the copy that is installed there, or install the driver's version",
        )
    _imported[package] = sent


def zip_package(app: str, folder: Path) -> Path:
    """Return the package as a zip file that Spark can ship: the same file for the same sources, since a
    session takes each name once. It has entries for folders: one without an `__init__.py` is not importable
    otherwise."""
    path = folder / _zip_name(fingerprint(app))
    files = dict(_sources(_package_of(app)))
    folders = {f"{parent}/" for name in files for parent in Path(name).parents if parent.name}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted({*files, *folders}):
            archive.writestr(zipfile.ZipInfo(name), files.get(name, b""))
    return path


def _zip_name(fingerprint: str) -> str:
    return ZIP.format(fingerprint[:16])


def _is_app_zip(path: str) -> bool:
    """Return whether it is a file of `zip_package`."""
    return Path(path).match(ZIP.format("*"))


def _package_of(app: str) -> str:
    """Return the outermost package, or the one module, that holds the app `module:name`."""
    return app.partition(":")[0].partition(".")[0]


def _sources(top: str) -> Iterator[tuple[str, bytes]]:
    """Yield each file of a package, or the one module, with its path."""
    if top == "tidegate":
        message = "an app inside the package tidegate cannot be shipped"
        raise ConfigError("no-such-app", message, "copy it into a module of your own")
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
