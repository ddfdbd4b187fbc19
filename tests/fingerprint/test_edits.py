"""Sixty edits of a small project, and whether the fingerprint of a function notices them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fingerprint.folder import Files, fingerprint
from tests.fingerprint.shop import SHOP

from tidegate.fingerprint import Fingerprint

Edit = tuple[str, str, str]
"""A file, a part of it, and what replaces this."""

SAME: dict[str, tuple[str, list[Edit]]] = {
    "a comment": ("main:total", [("shop/prices.py", "# a tenth", "# ten percent\n    # off")]),
    "formatting": (
        "main:total",
        [("shop/prices.py", "max(MINIMUM, up(", "max(\n        MINIMUM,\n        up(")],
    ),
    "a docstring": ("main:total", [("main.py", '"""Add up an order."""', '"""Add everything up."""')]),
    "a new docstring": (
        "main:total",
        [("shop/chain.py", "def first(value):\n", 'def first(value):\n    """First."""\n')],
    ),
    "the docstring of a class": ("shop.types:Order", [("shop/types.py", '"""An order."""', '"""One."""')]),
    "a moved function": (
        "main:total",
        [
            ("shop/rules/vat.py", "def round_up(value):\n    return value + value % 2\n", ""),
            (
                "shop/deep.py",
                "def fourth",
                "def round_up(value):\n    return value + value % 2\n\ndef fourth",
            ),
            (
                "shop/prices.py",
                "import VAT, round_up as up",
                "import VAT\nfrom shop.deep import round_up as up",
            ),
        ],
    ),
    "a moved constant": (
        "main:total",
        [
            ("shop/rules/vat.py", "VAT = 19", ""),
            ("shop/deep.py", "def fourth", "VAT = 19\n\ndef fourth"),
            (
                "shop/prices.py",
                "import VAT, round_up as up",
                "import round_up as up\nfrom shop.deep import VAT",
            ),
            ("shop/tables.py", "from shop.rules.vat import VAT", "from shop.deep import VAT"),
        ],
    ),
    "a renamed file": (
        "main:total",
        [
            ("shop/chain.py", "*", "shop/links.py"),
            ("main.py", "from shop.chain import", "from shop.links import"),
        ],
    ),
    "a function further down in its file": (
        "main:total",
        [("shop/prices.py", "MINIMUM = 5", "\n\n\nclass New:\n    pass\n\nMINIMUM = 5")],
    ),
    "the order of functions": (
        "main:total",
        [
            ("shop/chain.py", "def second(value):\n    return third(value) * 2\n", ""),
            (
                "shop/chain.py",
                "def first",
                "def second(value):\n    return third(value) * 2\n\n\ndef first",
            ),
        ],
    ),
    "the order of imports": (
        "main:total",
        [
            ("main.py", "import shop.catalog\n", ""),
            ("main.py", "import shop.plugins\n", "import shop.plugins\nimport shop.catalog\n"),
        ],
    ),
    "the alias of an imported function": (
        "main:total",
        [
            ("main.py", "import first as start", "import first as begin"),
            ("main.py", "start(order.cents)", "begin(order.cents)"),
        ],
    ),
    "the alias of an imported module": (
        "main:table",
        [
            ("main.py", "tables as t", "tables as u"),
            ("main.py", "t.look_up", "u.look_up"),
            ("main.py", "t.scale", "u.scale"),
        ],
    ),
    "a relative import made absolute": (
        "main:total",
        [("shop/chain.py", "from . import deep", "from shop import deep")],
    ),
    "a function of another component": (
        "main:total",
        [("shop/catalog.py", "return renamed", "return [renamed]")],
    ),
    "locals of an unrelated function": (
        "main:total",
        [("shop/prices.py", "local = value + 1\n    return local", "other = value + 1\n    return other")],
    ),
    "a constant of another component": ("main:total", [("shop/catalog.py", '"red"', '"red", "blue"')]),
    "another component in the same module": (
        "main:total",
        [("main.py", "app.stream(ORDERS).map(lambda", "app.stream(ORDERS).filter(bool).map(lambda")],
    ),
    "what follows the function in the topology": (
        "main:total",
        [("main.py", "app.stream(ORDERS).map(total)", "app.stream(ORDERS).map(total).filter(bool)")],
    ),
    "two swapped statements of the topology": (
        "main:total",
        [
            ("main.py", "app.stream(ORDERS).map(total)\n", ""),
            ("main.py", "(order))\n", "(order))\napp.stream(ORDERS).map(total)\n"),
        ],
    ),
    "another lambda of the line": ("main:one", [("shop/closures.py", "value + 2\n", "value + 22\n")]),
    "an operational setting": (
        "shop.types:configured",
        [("shop/types.py", 'operational("")', 'operational("night")')],
    ),
    "a function named like a field": (
        "shop.types:Order",
        [("shop/types.py", "order.cents * 100", "order.cents * 1000")],
    ),
    "a class that nothing mentions": ("main:sized", [("shop/types.py", 'name: str = "web"', "name: str")]),
}

CHANGED: dict[str, tuple[str, list[Edit]]] = {
    "the function itself": ("main:total", [("main.py", "start(order.cents)", "start(-order.cents)")]),
    "a helper three calls deep": (
        "main:total",
        [("shop/chain.py", "deep.fourth(value)", "deep.fourth(value + 1)")],
    ),
    "a helper behind a module": ("main:total", [("shop/deep.py", "value - 3", "value - 4")]),
    "a helper behind a re-export": ("main:total", [("shop/prices.py", "// 100)", "// 101)")]),
    "another function of the same name": (
        "main:total",
        [("main.py", "from shop.chain import first", "from shop.deep import fourth")],
    ),
    "a module constant": ("main:total", [("shop/rules/vat.py", "VAT = 19", "VAT = 7")]),
    "a regex constant": ("main:table", [("shop/tables.py", "[a-z]+", "[a-z]*")]),
    "the flags of a regex": ("main:table", [("shop/tables.py", ", re.IGNORECASE", "")]),
    "a closure value": ("main:bound", [("main.py", "bounded(7)", "bounded(8)")]),
    "a default argument": ("main:total", [("shop/prices.py", "percent=10", "percent=20")]),
    "a partial argument": ("main:scaled", [("main.py", "t.scale, 3", "t.scale, 4")]),
    "a keyword of a partial": ("main:scaled", [("main.py", "by=2", "by=3")]),
    "one of two lambdas in a line": ("main:two", [("shop/closures.py", "value + 2\n", "value + 22\n")]),
    "a lambda made in a loop": ("main:looped", [("shop/closures.py", "range(3)", "range(5, 8)")]),
    "the body of a decorator": (
        "shop.closures:shown",
        [("shop/closures.py", 'f"{prefix}{', 'f"{prefix}: {')],
    ),
    "the argument of a decorator": ("shop.closures:shown", [("shop/closures.py", '"cents "', '"euros "')]),
    "a decorated function": (
        "shop.closures:shown",
        [("shop/closures.py", "def shown(value):\n    return value", "def shown(value):\n    return -value")],
    ),
    "a cached function": ("shop.closures:cached", [("shop/closures.py", "value * 3", "value * 4")]),
    "a base class": ("main:scale", [("shop/closures.py", "+ self.offset", "- self.offset")]),
    "an attribute of a base class": ("main:scale", [("shop/closures.py", "offset = 1", "offset = 2")]),
    "a mixin": ("main:scale", [("shop/closures.py", "+ self.extra", "* self.extra")]),
    "the order of bases": ("main:scale", [("shop/closures.py", "(Mixin, Base)", "(Base, Mixin)")]),
    "a metaclass": ("shop.types:Thing", [("shop/types.py", "name.lower()", "name.upper()")]),
    "a class attribute that is set later": (
        "shop.targets:Patched",
        [("shop/patches.py", "factor = 6", "factor = 7")],
    ),
    "an enum member": ("main:sized", [("shop/types.py", "SMALL = 1", "SMALL = 3")]),
    "a field of a Struct": ("shop.types:Order", [("shop/types.py", "id: int", "id: str")]),
    "a new field of a Struct": ("shop.types:Order", [("shop/types.py", "id: int", "id: int\n    name: str")]),
    "the default of a Struct": ("shop.types:Order", [("shop/types.py", "cents: int = 0", "cents: int = 1")]),
    "the tag of a Struct": ("shop.types:Order", [("shop/types.py", 'tag="order"', 'tag="bought"')]),
    "a Struct inside of a Struct": (
        "shop.types:Event",
        [("shop/types.py", "cents: int = 0", "cents: int = 1")],
    ),
    "a dataclass named in quotes": ("shop.types:Event", [("shop/types.py", '"web"', '"shop"')]),
    "a registered function of another module": (
        "main:registered",
        [("shop/plugins.py", "value + 1", "value + 2")],
    ),
    "one more registered function": (
        "main:registered",
        [
            (
                "shop/plugins.py",
                "value + 1",
                'value + 1\n\n@register("minus")\ndef minus(value):\n    return -value',
            )
        ],
    ),
    "a plugin that is no longer imported": ("main:registered", [("main.py", "import shop.plugins\n", "")]),
    "a monkeypatch": ("shop.targets:calls_patched", [("shop/patches.py", "value * 100", "value * 10")]),
    "a monkeypatch that is gone": (
        "shop.targets:calls_patched",
        [("shop/patches.py", "targets.patched = replacement", "")],
    ),
    "a dict of functions": ("main:table", [("shop/tables.py", "value ** 2", "value ** 3")]),
    "a match case": ("main:table", [("shop/tables.py", '"value": inner}', '"amount": inner}')]),
    "a comprehension": ("main:table", [("shop/tables.py", " if word not in SKIPPED", "")]),
    "an f-string": ("main:table", [("shop/tables.py", "!r:>10", "!r:>9")]),
    "an async helper": ("shop.closures:waits", [("shop/closures.py", "value + 4", "value + 5")]),
    "a generator": ("shop.closures:counted", [("shop/closures.py", "one % 2)", "one % 3)")]),
    "a property": ("main:scale", [("shop/closures.py", "return 2\n", "return 3\n")]),
    "a field of a callable object": ("main:scale", [("main.py", "Scale(4)", "Scale(40)")]),
    "the instance of a bound method": ("main:method", [("main.py", "Scale(5)", "Scale(50)")]),
    "a function of singledispatch": ("shop.types:area", [("shop/types.py", "shape * shape", "shape * 4")]),
    "the type of a function of singledispatch": (
        "shop.types:area",
        [("shop/types.py", "_(shape: int)", "_(shape: float)")],
    ),
    "an overload": ("shop.types:doubled", [("shop/types.py", "value * 2", "value * 22")]),
    "a conditional import": (
        "main:table",
        [
            (
                "shop/tables.py",
                "from shop.rules.vat import VAT as RATE",
                "from shop.prices import MINIMUM as RATE",
            )
        ],
    ),
    "a data file read at import": ("main:table", [("limits.json", "100", "99")]),
    "a counted setting": ("shop.types:configured", [("shop/types.py", "Config(least=0)", "Config(least=1)")]),
}

NAMED: dict[str, tuple[str, str, tuple[str, str]]] = {
    "a file": ("import pathlib", 'pathlib.Path("x").read_text()', ("file", "Path.read_text")),
    "an opened file": ("", 'open("x").read()', ("file", "open")),
    "the environment": ("import os", 'os.environ["X"]', ("environment", "os.environ")),
    "a variable of the environment": ("from os import getenv as g", 'g("X")', ("environment", "os.getenv")),
    "the clock": ("import time as t", "t.time()", ("clock", "time.time")),
    "the date": ("from datetime import datetime", "datetime.now()", ("clock", "datetime.datetime.now")),
    "random numbers": ("import random", "random.random()", ("random", "random.random")),
    "a random id": ("import uuid", "uuid.uuid4()", ("random", "uuid.uuid4")),
    "the network": ("import urllib.request", 'urllib.request.urlopen("x")', ("network", "urllib.request")),
    "a process": ("import subprocess", 'subprocess.run("x")', ("process", "subprocess.run")),
}


def edited(edits: list[Edit]) -> Files:
    files = dict(SHOP)
    for file, old, new in edits:
        if old == "*":
            files[new] = files.pop(file)
            continue
        assert old in files[file], f"{file} has no {old!r}"
        files[file] = files[file].replace(old, new, 1)
    return files


def fingerprint_of(folder: Path, root: str, files: Files) -> Fingerprint:
    module, _, name = root.partition(":")
    return fingerprint(folder, files, name, ("main", module))


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Fingerprint]:
    """The fingerprint of each root in the project as it is."""
    roots = {root for root, _ in (*SAME.values(), *CHANGED.values())}
    return {root: fingerprint_of(tmp_path_factory.mktemp("shop"), root, SHOP) for root in sorted(roots)}


def test_the_same_project_in_another_folder_has_the_same_fingerprints(
    tmp_path: Path, before: dict[str, Fingerprint]
) -> None:
    for number, (root, found) in enumerate(before.items()):
        assert fingerprint_of(tmp_path / str(number), root, SHOP) == found


@pytest.mark.parametrize("edit", SAME)
def test_an_edit_that_changes_no_result_is_the_same(
    tmp_path: Path, before: dict[str, Fingerprint], edit: str
) -> None:
    root, edits = SAME[edit]
    assert fingerprint_of(tmp_path, root, edited(edits)).digest == before[root].digest


@pytest.mark.parametrize("edit", CHANGED)
def test_an_edit_that_may_change_a_result_is_a_change(
    tmp_path: Path, before: dict[str, Fingerprint], edit: str
) -> None:
    root, edits = CHANGED[edit]
    assert fingerprint_of(tmp_path, root, edited(edits)).digest != before[root].digest


@pytest.mark.parametrize("what", NAMED)
def test_what_cannot_be_seen_is_named(tmp_path: Path, what: str) -> None:
    statement, expression, named = NAMED[what]
    text = f"{statement}\n\ndef helper(value):\n    return value, {expression}\n"
    files = {
        "main.py": "import inner\n\ndef root(value):\n    return inner.helper(value)\n",
        "inner.py": text,
    }
    found = fingerprint(tmp_path, files)
    assert [(one.what, one.name, one.location) for one in found.unseen] == [(*named, "inner.py:3")]
