"""Compute fingerprints: from a root, through all source and values that it reaches.

Source is compared, not byte code, which differs between versions of Python. A unit is one top-level
statement. It reaches each statement that binds a name it mentions, through imports; and each statement that
acts on it at import, such as a registration or a monkeypatch. Modules, files, lines, aliases and the order of
statements are no part of a digest, so a function that is moved to another file keeps it.

Fingerprints belong to the code as imported: compute them before the first record is processed, since
functions may keep state in their modules.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable
from typing import Any

from tidegate.fingerprint.explore import Explorer
from tidegate.fingerprint.fields import fields_of, is_settings
from tidegate.fingerprint.fingerprint import ALGORITHM, Fingerprint, Unit, Unseen, digest_of
from tidegate.fingerprint.graph import Graph, Piece
from tidegate.fingerprint.index import index_of, without_collecting
from tidegate.fingerprint.logic import logic_of
from tidegate.fingerprint.packages import versions
from tidegate.fingerprint.project import Project
from tidegate.fingerprint.values import Showing


class Fingerprints:
    """Fingerprints of one app: each module is parsed once. `packages` are packages of the project that are
    installed like a library."""

    def __init__(self, packages: Iterable[str] = (), *, project: Project | None = None) -> None:
        self._project = project or Project(packages)
        self._explorer: Explorer | None = None
        self._graph = Graph()
        self._reached = 0
        self._sorted_units: list[Piece] = []
        self._known_units = 0
        self._labelled: dict[int, dict[str, str]] = {}
        self._versions: dict[int, dict[str, str]] = {}
        self._named_unseen: dict[int, list[Unseen]] = {}
        self._made_units: dict[str, Unit] = {}
        self._made = 0
        """By the number of their piece: a piece that was reached does not change any more."""

    def of(self, root: Any) -> Fingerprint:
        """Return the fingerprint of a function, class, partial, bound method, callable object or type."""
        with without_collecting():
            explorer = self._explored()
            piece = self._root(explorer, root)
            self._graph.finish(piece)
        self._reached |= piece.mask
        version = getattr(_declared(root), "version", "")
        return Fingerprint(
            digest=digest_of(f"{ALGORITHM} {piece.digest} {version} {self._graph.shared(piece.mask)}"),
            units=self._units(piece.mask & self._graph.named),
            values=self._values(piece),
            packages=self._packages(piece),
            unseen=self._unseen(piece),
            version=version,
        )

    def roots(self) -> list[str]:
        """Return the folders that the project is imported from."""
        return list(self._explored().roots)

    def units(self) -> dict[str, Unit]:
        """Return all units that a fingerprint so far has reached."""
        fresh = self._reached & self._graph.named & ~self._made
        for one in self._graph.reached(fresh):
            self._made_units[one.name] = Unit(one.location, one.own)
        self._made |= fresh
        return dict(self._made_units)

    def _explored(self) -> Explorer:
        if self._explorer is None:
            self._explorer = Explorer(index_of(self._project))
        return self._explorer

    def _root(self, explorer: Explorer, root: Any) -> Piece:
        piece = Piece()
        piece.text = "root"
        piece.extra += explorer.ambient()
        showing = Showing(explorer.live, piece)
        if isinstance(root, functools.partial):
            piece.values["function"] = showing.digest(root.func)
            for number, argument in enumerate(root.args):
                piece.values[f"argument {number} of partial"] = showing.digest(argument)
            for name, argument in sorted(root.keywords.items()):
                piece.values[f"argument {name} of partial"] = showing.digest(argument)
        elif isinstance(root, types.MethodType) and not isinstance(root.__self__, type):
            piece.values["function"] = showing.digest(root.__func__)
            self._object(piece, showing, explorer, root.__self__)
        else:
            self._object(piece, showing, explorer, root)
        return piece

    @staticmethod
    def _object(piece: Piece, showing: Showing, explorer: Explorer, value: Any) -> None:
        is_code = isinstance(value, (type, types.FunctionType, types.MethodType))
        if is_code or explorer.live.project_class(type(value)) is None or is_settings(type(value)):
            piece.values["object"] = showing.digest(value)
            return
        piece.values["class"] = showing.digest(type(value))
        for name, inner in fields_of(value).items():
            piece.values[f"field {name}"] = showing.digest(inner)

    def _units(self, mask: int) -> list[str]:
        """Return the sorted names of a bit set."""
        if self._known_units != self._graph.named:
            fresh = self._graph.reached(self._graph.named & ~self._known_units)
            self._sorted_units = sorted([*self._sorted_units, *fresh], key=lambda one: one.name)
            self._known_units = self._graph.named
        bits = self._graph.bits(mask)
        return list(dict.fromkeys([one.name for one in self._sorted_units if bits[one.number]]))

    def _values(self, root: Piece) -> dict[str, str]:
        """Return the values of all pieces by label; those of the root itself by their short label."""
        own = [root, *root.ordered[:1]]
        mask = root.mask & self._graph.valued
        for one in own:
            mask &= ~(1 << one.number)
        found = {label: value for one in own for label, value in sorted(one.values.items())}
        for label in ("function", "object", "class"):
            found.pop(label, None)
        return found | self._of_others(mask)

    def _of_others(self, mask: int) -> dict[str, str]:
        known = self._labelled.get(mask)
        if known is None:
            found = {
                one.label(label): value
                for one in self._graph.reached(mask)
                for label, value in one.values.items()
            }
            known = self._labelled[mask] = found
        return known

    def _packages(self, root: Piece) -> dict[str, str]:
        mask = root.mask & self._graph.mentioning
        if mask not in self._versions:
            modules = {name for one in self._graph.reached(mask) for name in one.packages}
            self._versions[mask] = versions(modules)
        return self._versions[mask]

    def _unseen(self, root: Piece) -> list[Unseen]:
        """Collect what is unseen, not below functions with a declared version."""
        mask = root.mask & self._graph.unseeing
        if not mask:
            return []
        if root.mask & self._graph.settled:
            return _sorted(_unsettled(root))
        if mask not in self._named_unseen:
            self._named_unseen[mask] = _sorted(self._graph.reached(mask))
        return self._named_unseen[mask]


def _sorted(pieces: Iterable[Piece]) -> list[Unseen]:
    return sorted({each for one in pieces for each in one.unseen_here()})


def _unsettled(root: Piece) -> list[Piece]:
    waiting, seen = [root], {}
    while waiting:
        one = waiting.pop()
        if id(one) not in seen and not one.settled:
            seen[id(one)] = one
            waiting += [*one.ordered, *one.extra]
    return list(seen.values())


def _declared(root: Any) -> Any:
    """What the user declared of the root, or of the function inside of partials, methods and wrappers."""
    while True:
        found = logic_of(root)
        if found is not None:
            return found
        inner = getattr(root, "func", None) if isinstance(root, functools.partial) else None
        inner = inner or getattr(root, "__func__", None) or getattr(root, "__wrapped__", None)
        if inner is None:
            return None if isinstance(root, type) else logic_of(type(root))
        root = inner
