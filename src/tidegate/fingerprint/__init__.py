"""Fingerprints of functions: digests of the source and the values that decide what a function does."""

from __future__ import annotations

from tidegate.fingerprint.fingerprint import ALGORITHM, Fingerprint, Unit, Unseen, python_version
from tidegate.fingerprint.fingerprints import Fingerprints
from tidegate.fingerprint.index import forget
from tidegate.fingerprint.logic import logic
from tidegate.fingerprint.roots import use_roots

__all__ = [
    "ALGORITHM",
    "Fingerprint",
    "Fingerprints",
    "Unit",
    "Unseen",
    "forget",
    "logic",
    "python_version",
    "use_roots",
]
