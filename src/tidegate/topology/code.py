"""The user's code as a generation was started with it: to explain later what changed.

It is a record of its own beside the manifest, which servers read too: only a plan needs it. Fingerprints of
one app reach mostly the same units of source, so each is written once, and the record is compressed.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable
from types import FunctionType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, ref

import msgspec

from tidegate.fingerprint import Fingerprint, Unit
from tidegate.fingerprint.fingerprints import Fingerprints
from tidegate.topology.commit import commit_of


class CodeEntry(msgspec.Struct, frozen=True):
    """The fingerprints of a generation by their digests, and the units of source that they reach by name."""

    units: dict[str, Unit] = {}
    fingerprints: dict[str, Fingerprint] = {}
    commit: str = ""
    """The commit of the folder that declares the app, with `-dirty` if files differed from it; empty if it is
    unknown."""


class Code:
    """Computes fingerprints, and keeps them for the record.

    A function or class keeps the fingerprint that it had when it was first seen in this process: what it
    collects in a variable while it runs is no change of code. It is computed again after a module that it
    reaches was reloaded, or a cell of a notebook defined a function or class of it again.
    """

    def __init__(self, module: str = "") -> None:
        """`module` is the one that declares the app."""
        self._module = module
        self._source = Fingerprints([module] if module not in ("", "__main__") else [])
        self._known: dict[str, Fingerprint] = {}
        self._units: dict[str, Unit] = {}

    def of(self, root: Any) -> Fingerprint:
        if not isinstance(root, type | FunctionType):
            return self._add(*self._computed(root))
        seen = _first_seen.get(root)
        if seen is None or not seen.bindings.hold():
            found, units = self._computed(root)
            seen = _first_seen[root] = _Seen(found, units, _Bindings(root, units))
        return self._add(seen.fingerprint, seen.units)

    def roots(self) -> list[str]:
        """Return the folders that the project is imported from."""
        return self._source.roots()

    def entry(self) -> CodeEntry:
        """Return the record of everything that was computed so far."""
        return CodeEntry(dict(sorted(self._units.items())), dict(sorted(self._known.items())))

    def recorded(self) -> CodeEntry:
        """Return the record with the commit that the code is from."""
        return msgspec.structs.replace(self.entry(), commit=commit_of(self._module))

    def _computed(self, root: Any) -> tuple[Fingerprint, dict[str, Unit]]:
        found = self._source.of(root)
        units = self._source.units()
        return found, {name: units[name] for name in found.units}

    def _add(self, found: Fingerprint, units: dict[str, Unit]) -> Fingerprint:
        self._units |= units
        return self._known.setdefault(found.digest, found)


class _Bindings:
    """The functions and classes that the modules of some units have bound. They are not kept alive: another
    one could get the address of one that is gone."""

    def __init__(self, root: Any, units: Iterable[str]) -> None:
        own = root.__module__ or "__main__"
        self._modules = sorted({own, "__main__", *(name.partition(":")[0] for name in units)})
        self._bound = [ref(one) for one in self._now()]

    def hold(self) -> bool:
        """Return whether they are still the same."""
        now = self._now()
        return len(now) == len(self._bound) and all(
            before() is after for before, after in zip(self._bound, now, strict=True)
        )

    def _now(self) -> list[Any]:
        modules = [sys.modules[name] for name in self._modules if name in sys.modules]
        return [
            one for module in modules for one in vars(module).values() if isinstance(one, type | FunctionType)
        ]


class _Seen(NamedTuple):
    fingerprint: Fingerprint
    units: dict[str, Unit]
    bindings: _Bindings


_first_seen: WeakKeyDictionary[Any, _Seen] = WeakKeyDictionary()


def packed(code: CodeEntry) -> bytes:
    """Return the record. In it fingerprints refer to units by their numbers."""
    number = {name: at for at, name in enumerate(code.units)}
    fingerprints = {
        digest: (msgspec.structs.replace(one, units=[]), _gaps(sorted(number[name] for name in one.units)))
        for digest, one in code.fingerprints.items()
    }
    return zlib.compress(msgspec.json.encode(_Packed(code.units, fingerprints, code.commit)))


def unpacked(data: bytes) -> CodeEntry:
    """Return the code of a record. Raises ValueError if it is not one."""
    try:
        found = _packed.decode(zlib.decompress(data))
        known = list(found.units)
        return CodeEntry(
            found.units,
            {
                digest: msgspec.structs.replace(one, units=[known[at] for at in _sums(gaps)])
                for digest, (one, gaps) in found.fingerprints.items()
            },
            found.commit,
        )
    except (zlib.error, msgspec.DecodeError, IndexError) as error:
        raise ValueError(f"{error}") from error


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    units: dict[str, Unit]
    fingerprints: dict[str, tuple[Fingerprint, list[int]]]
    commit: str = ""


_packed = msgspec.json.Decoder(_Packed)


def _gaps(numbers: list[int]) -> list[int]:
    """Return the differences of ascending numbers, which are mostly 1 and compress well."""
    return [after - before for before, after in zip([0, *numbers], numbers, strict=False)]


def _sums(gaps: list[int]) -> list[int]:
    found, at = [], 0
    for gap in gaps:
        at += gap
        found.append(at)
    return found
