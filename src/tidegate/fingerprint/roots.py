"""The folders that the project is imported from. Absolute paths below them are shown relative to them, since
they differ between machines.

A constant may be a path below the driver's folder, while an executor imports the same module from a zip file.
So an executor uses the folders of its driver as well."""

from __future__ import annotations

from collections.abc import Iterable

_of_driver: list[str] = []


def use_roots(roots: Iterable[str]) -> None:
    """Use the folders that the driver imports the project from, too, from here on in this process."""
    _of_driver[:] = roots


def all_roots(folders: Iterable[str]) -> tuple[str, ...]:
    """Return these folders and those of the driver, the innermost first."""
    return tuple(sorted({*folders, *_of_driver} - {"", "/"}, key=len, reverse=True))
