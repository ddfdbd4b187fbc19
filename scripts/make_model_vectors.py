"""Write tests/models/vectors.json: what patches and digests of models are, for clients in every language.

    python scripts/make_model_vectors.py            write the file
    python scripts/make_model_vectors.py --check    exit with 1 if the file is not what this code makes

canonical   a JSON text, its RFC 8785 form, and the digest of that
patches     old value, patch, new value, digest of the new value: chosen by hand
histories   the same, made by `since` from random histories: one patch over up to twelve versions
refused     an old value, and a patch that does not fit it
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tidegate.models.canonical import canonical, digest
from tidegate.models.patch import apply
from tidegate.models.stamps import Stamps, advance, since

FILE = Path(__file__).parents[1] / "tests" / "models" / "vectors.json"
SEED = 17
HISTORIES = 24
VERSIONS = 12

KEYS = [
    *("a", "b", "é", "€", "\U0001f680", "\ufb33"),
    *("", "__proto__", "constructor", "toString", "a/b~c", "=", "#"),
]
LEAVES: list[Any] = [
    *(None, True, False, 0, 1, 1.0, -1, 0.1, -0.0, 1e21, 1e-7, 2**53 - 1, 1 - 2**53, 5e-324),
    *("", "x", "\u2028", '"\\/', "\x01\x1f\x7f", "\U0001f680", "__proto__", [], {}),
]
TEXTS = [
    "0 -0 -0.0 1 1.0 -1 10 0.1 0.5 -0.5 100 1e2 1E2 1e20 1e21 -1e21 1e-6 1e-7 -1e-7 1.5e-9 1e16 1e22 1e23",
    "123456789012345680000.0 9007199254740991 -9007199254740991 9007199254740992.0 333333333.33333329 4.50",
    "5e-324 1.7976931348623157e308 2.2250738585072014e-308 2e-3 0.000001 0.0000001 1.0000000000000002",
    r'"" "a" "\u0000\u0001\u001f\u007f" "\b\f\n\r\t" "\"\\\/" "\u00e9\u20ac" "\ud83d\ude80" "\u2028\u2029"',
    r'[] {} [[[]]] [{}] {"a":{}} [1,2.0,"3",null,true,false] {"b":1,"a":2} {"1":1,"10":2,"2":3,"":4}',
    r'{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude80":5,"\u0080":6,"\u00f6":7}',
    r'{"\uffff":1,"\ud800\udc00":2}',
    r'{"__proto__":{"polluted":1},"constructor":{"prototype":{}},"toString":1,"hasOwnProperty":2,"length":3}',
]
"""JSON texts, with a space between them."""

BY_HAND: list[tuple[Any, Any]] = [
    ({"a": 1}, {}),
    (None, {"=": {"a": 1}}),
    ({"a": 1}, {"=": None}),
    ({"a": 1}, {"*": {"a": {"=": 2}, "b": {"=": []}}}),
    ({"a": 1, "b": 2}, {"*": {"a": {"-": 1}, "never": {"-": 1}}}),
    ({"a": {"b": {"c": 1}}, "d": 1}, {"*": {"a": {"*": {"b": {"*": {"c": {"=": 2}}}}}}}),
    ({}, {"*": {"__proto__": {"=": {"polluted": True}}}}),
    ({"x": 1}, {"*": {"constructor": {"=": 1}, "toString": {"=": 2}, "hasOwnProperty": {"=": 3}}}),
    ({"a": {}}, {"=": {"__proto__": {"__proto__": 1}}}),
    ({"a": 1, "é": 2, "\U0001f680": {"€": 3}}, {"*": {"\U0001f680": {"*": {"€": {"=": 4}}}, "é": {"-": 1}}}),
    ({"=": 1, "-": 2, "*": {"#": 3}}, {"*": {"*": {"*": {"#": {"=": {"=": 1}}}}, "-": {"-": 1}}}),
    ([1, 2, 3], {"#": [[0, {"=": 9}]]}),
    ([1, 2, 3], {"n": 1}),
    ([1, 2, 3], {"n": 0}),
    ([1, 2, 3], {"+": [4, [5]]}),
    ([1, {"a": [1, 2]}, 3], {"#": [[1, {"*": {"a": {"n": 1, "+": ["x"]}}}]], "n": 2, "+": [None]}),
    ([[1], [2]], {"#": [[0, {"+": [2]}], [1, {"n": 0}]]}),
    ([], {"+": [1]}),
    ([1], {"=": 1.0}),
    ({"n": 1}, {"*": {"n": {"=": 1e21}}}),
    ({"n": 1}, {"*": {"n": {"=": -0.0}}}),
    ({"n": 1}, {"*": {"n": {"=": 2**53 - 1}}}),
    ({"n": 1}, {"*": {"n": {"=": 1e-7}, "m": {"=": 0.1}}}),
]
REFUSED: list[tuple[Any, Any]] = [
    ({"a": 1}, {"*": {"b": {"*": {}}}}),
    ({"a": 1}, {"*": {"b": {}}}),
    ({}, {"*": {"toString": {"*": {"a": {"=": 1}}}}}),
    ({}, {"*": {"__proto__": {"*": {"polluted": {"=": 1}}}}}),
    ({"a": 1}, {"*": {"a": {"*": {"b": {"=": 1}}}}}),
    ({"a": {"b": 1}}, {"*": {"a": {"+": [1]}}}),
    ({"a": 1}, {"-": 1}),
    ({"a": 1}, {"?": 1}),
    ({"a": 1}, {"n": 0}),
    ([1], {"*": {"0": {"=": 1}}}),
    ([1], {"#": [[1, {"=": 1}]]}),
    ([1], {"#": [[-1, {"=": 1}]]}),
    ([1], {"n": 2}),
    ([1], {"n": -1}),
    ([1], {"-": 1}),
    ([1], {"n": 1, "x": 1}),
    (None, {"*": {"a": {"=": 1}}}),
    ("text", {"#": [[0, {"=": "x"}]]}),
    (1, {"+": [1]}),
]


class Chance:
    """Random choices that are the same in every version of Python: only `random()` promises that."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, count: int) -> int:
        return int(self._random.random() * count)

    def of(self, items: list[Any]) -> Any:
        return items[self.below(len(items))]

    def value(self, depth: int) -> Any:
        kind = self.below(4) if depth else 3
        if kind == 0:
            return {self.of(KEYS): self.value(depth - 1) for _ in range(self.below(4))}
        if kind == 1:
            return [self.value(depth - 1) for _ in range(self.below(4))]
        return self.of(LEAVES)

    def changed(self, value: Any, depth: int = 3) -> Any:
        """A value that differs in one place, or is another one."""
        replaced = self.below(8 if depth < 3 else 100) == 0
        if isinstance(value, dict) and not replaced:
            return self._changed_object(value, depth)
        if isinstance(value, list) and not replaced:
            return self._changed_list(value, depth)
        return self.value(max(depth - 1, 0))

    def _changed_object(self, value: dict[str, Any], depth: int) -> Any:
        key = self.of([*value, *value, self.of(KEYS)])
        if key in value and self.below(4) == 0:
            return {one: kept for one, kept in value.items() if one != key}
        new = self.changed(value[key], depth - 1) if key in value else self.value(max(depth - 1, 0))
        return {**value, key: new}

    def _changed_list(self, value: list[Any], depth: int) -> Any:
        what = self.below(3)
        if what == 0 or not value:
            return [*value, *(self.value(max(depth - 1, 0)) for _ in range(1 + self.below(2)))]
        if what == 1:
            return value[: self.below(len(value))]
        at = self.below(len(value))
        return [*value[:at], self.changed(value[at], depth - 1), *value[at + 1 :]]


def deep(levels: int, leaf: Any) -> Any:
    for level in range(levels):
        leaf = [leaf] if level % 2 else {"d": leaf}
    return leaf


def deep_patch(levels: int, leaf: Any) -> Any:
    patch: Any = {"=": leaf}
    for level in range(levels):
        patch = {"#": [[0, patch]]} if level % 2 else {"*": {"d": patch}}
    return patch


def histories() -> Iterator[dict[str, Any]]:
    """Histories of values, each with one patch between two of its versions."""
    chance = Chance(SEED)
    for _ in range(HISTORIES):
        versions = [{key: chance.value(3) for key in KEYS[:6]}]
        stamps: list[Stamps] = [1]
        while len(versions) < VERSIONS:
            new = chance.changed(versions[-1])
            now, patch = advance(versions[-1], new, stamps[-1], len(versions) + 1)
            if patch:
                assert canonical(apply(versions[-1], patch)) == canonical(new)
                versions.append(new)
                stamps.append(now)
        for _ in range(4):
            old = chance.below(VERSIONS)
            new_at = old + chance.below(VERSIONS - old)
            yield case(versions[old], since(versions[new_at], stamps[new_at], old + 1), versions[new_at])


def case(old: Any, patch: Any, new: Any) -> dict[str, Any]:
    assert canonical(apply(old, patch)) == canonical(new)
    return {"old": old, "patch": patch, "new": new, "digest": digest(new)}


def vectors() -> dict[str, list[dict[str, Any]]]:
    texts = [text for line in TEXTS for text in line.split(" ")]
    by_hand = [*BY_HAND, (deep(40, 1), deep_patch(40, "leaf"))]
    return {
        "canonical": [canonical_case(text) for text in texts],
        "patches": [case(old, patch, apply(old, patch)) for old, patch in by_hand],
        "histories": list(histories()),
        "refused": [{"old": old, "patch": patch} for old, patch in REFUSED],
    }


def canonical_case(text: str) -> dict[str, Any]:
    value = msgspec.json.decode(text)
    return {"json": text, "canonical": canonical(value).decode(), "digest": digest(value)}


def encoded() -> bytes:
    """The file: one case per line."""
    parts = []
    for name, cases in vectors().items():
        lines = b",\n".join(msgspec.json.encode(one, order="sorted") for one in cases)
        parts.append(b'"%b": [\n%b\n]' % (name.encode(), lines))
    return b"{\n" + b",\n".join(parts) + b"\n}\n"


def main() -> int:
    data = encoded()
    if "--check" in sys.argv[1:]:
        return int(data != FILE.read_bytes())
    FILE.write_bytes(data)
    print(f"{FILE.name}: {len(data):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
