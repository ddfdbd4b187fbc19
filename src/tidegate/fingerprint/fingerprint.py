"""The digest of everything in the source that a function depends on, as it is kept in the manifest."""

from __future__ import annotations

import hashlib
import sys

import msgspec

ALGORITHM = 1
"""Raised when the same source would get another digest."""
DIGEST_CHARACTERS = 16


class Unit(msgspec.Struct, frozen=True):
    """One top-level statement, or a function inside one that is used by itself."""

    location: str
    """`shop/prices.py:41`: the module's path below its import root, and the line."""
    digest: str
    """Of its own text and values; not of what it reaches."""


class Unseen(msgspec.Struct, frozen=True, order=True):
    """Something that influences results and cannot be seen in the source."""

    what: str
    """environment | clock | random | network | file | process | no source | compiled | dynamic"""
    name: str
    """`os.environ`, `time.time`, `requests.get`"""
    location: str
    """Of the unit that mentions it."""


class Fingerprint(msgspec.Struct, frozen=True):
    """What a function depends on. Two fingerprints with the same digest stand for the same logic."""

    digest: str
    """Over the units' text, values and version. Not over packages, unseen things and locations."""
    units: list[str] = []
    """Names of the units that are reached, sorted: `shop.prices:discount`."""
    values: dict[str, str] = {}
    """Digests of what is not source: `closure limit`, `default cents`, `constant shop.LIMIT`."""
    packages: dict[str, str] = {}
    """The version of each installed distribution that is mentioned."""
    unseen: list[Unseen] = []
    version: str = ""
    """What the user declared with `tidegate.logic`."""


def digest_of(text: str) -> str:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:DIGEST_CHARACTERS]


def python_version() -> str:
    """Return the version of Python that decides what the standard library does: `3.11`."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"
