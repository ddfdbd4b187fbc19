"""Pieces of code and values that reach each other, and their digests.

The digest of a piece covers its own text and the digests of all pieces that it reaches, wherever they stand
in the source. Pieces that reach each other in a circle get theirs together: each starts with its own text,
then takes in the digests of its neighbours again and again until no more of them differ. Two pieces have the
same digest exactly if the same text is found on every path that leads away from them.

Each circle is computed once, and what it reaches is kept as a bit set, so that many roots cost little more
than one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import compress

from tidegate.fingerprint.fingerprint import Unseen, digest_of

_BITS = bytes.maketrans(b"01", b"\x00\x01")


class Piece:
    """A statement, a function inside one, or a live object."""

    __slots__ = (
        "circle",
        "digest",
        "expand",
        "extra",
        "guard",
        "label",
        "location",
        "mask",
        "name",
        "number",
        "ordered",
        "packages",
        "settled",
        "state",
        "text",
        "unseen",
        "values",
    )

    def __init__(
        self, name: str = "", location: str = "", expand: Callable[[Piece], None] | None = None
    ) -> None:
        self.name = name
        """`shop.prices:discount`; empty for what is no unit of source."""
        self.location = location
        self.expand = expand
        """Fills in the rest; called once."""
        self.text = ""
        self.ordered: list[Piece] = []
        """What its text refers to, in order."""
        self.extra: list[Piece] = []
        """What else it reaches; the order does not count."""
        self.values: dict[str, str] = {}
        """Digests of live values by label."""
        self.label: Callable[[str], str] = lambda label: label
        """Makes a label one that users read."""
        self.guard: Callable[[str], bool] | None = None
        """Whether the value of a label differs from process to process; it is left out then."""
        self.unseen: list[tuple[str, str]] = []
        self.packages: set[str] = set()
        self.settled = False
        """Whether the user declared a version: unseen things are then left out."""
        self.state = False
        """Whether it binds an object that can be changed: two that look the same are not the same."""
        self.number = -1
        self.mask = 0
        self.digest = ""
        self.circle: list[Piece] | None = None

    @property
    def own(self) -> str:
        """The digest of its own text and values."""
        values = "\x1e".join(f"{label}\x1f{digest}" for label, digest in sorted(self.values.items()))
        return digest_of(f"{self.text}\x1d{values}")

    def unseen_here(self) -> list[Unseen]:
        return [Unseen(what, name, self.location) for what, name in self.unseen]


class Graph:
    """All pieces so far. `finish` computes the digest of a root and of all that it reaches."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.named = self.valued = self.unseeing = self.mentioning = self.settled = self.state = 0
        """Bit sets: pieces with a name, with values, and so on."""

    def finish(self, root: Piece) -> None:
        """Compute the digests of a piece and of all that it reaches."""
        fresh = self._expanded(root)
        for one in fresh:
            if one.guard is not None:
                one.values = {label: value for label, value in one.values.items() if not one.guard(label)}
        for one in fresh:
            bit = 1 << one.number
            self.named |= bit if one.name else 0
            self.valued |= bit if one.values else 0
            self.unseeing |= bit if one.unseen else 0
            self.mentioning |= bit if one.packages else 0
            self.settled |= bit if one.settled else 0
            self.state |= bit if one.state else 0
        for circle in _circles(root):
            self._digest(circle)

    def reached(self, mask: int) -> Iterator[Piece]:
        """Return the pieces of a bit set."""
        return compress(self.pieces, self.bits(mask))

    def bits(self, mask: int) -> bytes:
        """Return a bit set as one byte per piece, 0 or 1."""
        return f"{mask:0{len(self.pieces)}b}"[::-1].encode().translate(_BITS)

    def shared(self, mask: int) -> str:
        """Show who uses which of several objects that look the same: `CACHE = {}` in two modules."""
        alike: dict[str, list[Piece]] = {}
        for one in self.reached(mask & self.state):
            alike.setdefault(one.digest, []).append(one)
        several = {id(one): one for those in alike.values() if len(those) > 1 for one in those}
        if not several:
            return ""
        users: dict[int, list[str]] = {key: [] for key in several}
        for user in self.reached(mask):
            for key in {id(one) for one in user.ordered} & several.keys():
                users[key].append(user.digest)
        return " ".join(
            sorted(f"{one.digest}({','.join(sorted(users[key]))})" for key, one in several.items())
        )

    def _expanded(self, root: Piece) -> list[Piece]:
        waiting, fresh = [root], []
        while waiting:
            piece = waiting.pop()
            if piece.number >= 0:
                continue
            piece.number = len(self.pieces)
            self.pieces.append(piece)
            fresh.append(piece)
            if piece.expand is not None:
                piece.expand(piece)
                piece.expand = None
                piece.extra = list({id(one): one for one in piece.extra}.values())
            waiting += piece.ordered
            waiting += piece.extra
        return fresh

    def _digest(self, circle: list[Piece]) -> None:
        mask = 0
        for one in circle:
            mask |= 1 << one.number
            for other in (*one.ordered, *one.extra):
                mask |= other.mask
        colours = {id(one): digest_of(f"{one.own} {len(one.ordered)} {len(one.extra)}") for one in circle}
        distinct, before = 0, -1
        while distinct != before:
            colours = {id(one): _mixed(colours, one) for one in circle}
            before, distinct = distinct, len(set(colours.values()))
            if len(circle) == 1:
                break
        whole = _hash(sorted(colours.values())) if len(circle) > 1 else ""
        for one in circle:
            one.digest = _hash([colours[id(one)], whole])
            one.mask = mask


def _mixed(colours: dict[int, str], piece: Piece) -> str:
    ordered = [one.digest or colours[id(one)] for one in piece.ordered]
    extra = sorted(one.digest or colours[id(one)] for one in piece.extra)
    return _hash([colours[id(piece)], *ordered, "|", *extra])


def _hash(parts: list[str]) -> str:
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:32]


def _circles(root: Piece) -> Iterator[list[Piece]]:
    """Yield the strongly connected sets of pieces without a digest, the reached ones first (Tarjan)."""
    if not root.digest:
        yield from _Circles().found(root)


class _Circles:
    def __init__(self) -> None:
        self._order: dict[int, int] = {}
        self._lowest: dict[int, int] = {}
        self._stack: list[Piece] = []
        self._on_stack: set[int] = set()
        self._work: list[tuple[Piece, Iterator[Piece]]] = []

    def found(self, root: Piece) -> Iterator[list[Piece]]:
        self._enter(root)
        while self._work:
            piece, rest = self._work[-1]
            following = self._next(piece, rest)
            if following is not None:
                self._enter(following)
                continue
            self._work.pop()
            key = id(piece)
            if self._work:
                above = id(self._work[-1][0])
                self._lowest[above] = min(self._lowest[above], self._lowest[key])
            if self._lowest[key] == self._order[key]:
                yield self._taken(piece)

    def _enter(self, piece: Piece) -> None:
        self._order[id(piece)] = self._lowest[id(piece)] = len(self._order)
        self._stack.append(piece)
        self._on_stack.add(id(piece))
        self._work.append((piece, iter([*piece.ordered, *piece.extra])))

    def _next(self, piece: Piece, rest: Iterator[Piece]) -> Piece | None:
        for other in rest:
            if other.digest:
                continue
            if id(other) not in self._order:
                return other
            if id(other) in self._on_stack:
                self._lowest[id(piece)] = min(self._lowest[id(piece)], self._order[id(other)])
        return None

    def _taken(self, last: Piece) -> list[Piece]:
        circle: list[Piece] = []
        while not circle or circle[-1] is not last:
            circle.append(self._stack.pop())
            self._on_stack.discard(id(circle[-1]))
        return circle
