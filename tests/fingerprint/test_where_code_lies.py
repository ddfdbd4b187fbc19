"""Source is found wherever Python imports it from, and depends on nothing but itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.fingerprint.folder import OnlyBelow, fingerprint, imported, write
from tests.fingerprint.shop import SHOP

import tidegate
from tidegate.fingerprint import Fingerprints

SOURCE = Path(tidegate.__file__).parents[1]
PRINT = """
import json, sys, importlib
from tidegate.fingerprint import Fingerprints
for name in sys.argv[1].split(","):
    module = importlib.import_module(name)
prints = Fingerprints()
roots = [getattr(module, name) for name in sys.argv[2].split(",")]
found = {name: prints.of(getattr(module, name)) for name in sys.argv[2].split(",")}
units = {name: [unit.location, unit.digest] for name, unit in prints.units().items()}
print(json.dumps([{name: [one.digest, one.units, one.values] for name, one in found.items()}, units]))
"""
ROOTS = "total,table,bound,scaled,rescaled,scale,method,one,looped,sized,registered,Order,Event"


def printed(
    folder: Path | str, modules: str, roots: str, *, seed: str, cwd: Path, python: str = sys.executable
) -> Any:
    """The fingerprints of a project as another process computes them."""
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{SOURCE}", "PYTHONHASHSEED": seed}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    found = subprocess.run(
        [python, "-c", PRINT, modules, roots],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def test_processes_hash_seeds_working_folders_and_import_orders_give_the_same(tmp_path: Path) -> None:
    write(tmp_path / "one", SHOP)
    write(tmp_path / "two", SHOP)
    first = printed(tmp_path / "one", "main", ROOTS, seed="1", cwd=tmp_path / "one")
    other = printed(
        tmp_path / "two", "shop.types,shop.closures,shop.deep,main", ROOTS, seed="77", cwd=Path("/")
    )
    assert first == other


def test_a_project_in_a_zip_file_is_read(tmp_path: Path) -> None:
    files = {name: text for name, text in SHOP.items() if name != "limits.json"}
    files["shop/tables.py"] = SHOP["shop/tables.py"].replace(
        'json.loads((Path(__file__).parents[1] / "limits.json").read_text())', '{"most": 100}'
    )
    write(tmp_path / "plain", files)
    with zipfile.ZipFile(tmp_path / "shipped.zip", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    plain = printed(tmp_path / "plain", "main", ROOTS, seed="0", cwd=tmp_path)
    zipped = printed(tmp_path / "shipped.zip", "main", ROOTS, seed="0", cwd=tmp_path)
    assert zipped == plain
    assert zipped[1]["shop.prices:discount"][0] == "shop/prices.py:7"


def test_a_script_has_the_same_fingerprints_as_the_module(tmp_path: Path) -> None:
    write(tmp_path, SHOP)
    end = "\nif __name__ == '__main__':\n    from tidegate.fingerprint import Fingerprints\n"
    end += "    print(Fingerprints().of(total).digest)\n"
    (tmp_path / "main.py").write_text(SHOP["main.py"] + end)
    script = subprocess.run(
        [sys.executable, str(tmp_path / "main.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        check=True,
    )
    module = printed(tmp_path, "main", "total", seed="0", cwd=tmp_path)
    assert script.stdout.strip() == module[0]["total"][0]


def test_the_command_that_runs_an_app_is_no_part_of_it(tmp_path: Path) -> None:
    """A command has the name of its package, and its file is not installed beside it."""
    write(tmp_path, SHOP)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tidegate").write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "from shop.types import configured\n"
        "from tidegate.fingerprint import Fingerprints\n"
        "found = Fingerprints()\n"
        "print(found.of(configured).digest, found.units()['shop.types:Config'].digest)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    ran = subprocess.run(
        [sys.executable, str(tmp_path / "bin" / "tidegate")],
        capture_output=True,
        text=True,
        env=env,
        check=True,
    )
    prints, units = printed(tmp_path, "shop.types", "configured", seed="0", cwd=tmp_path)
    assert ran.stdout.split() == [prints["configured"][0], units["shop.types:Config"][1]]


def test_cells_of_a_notebook_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import linecache

    def run(cells: list[str]) -> str:
        notebook = ModuleType("__main__")
        monkeypatch.setitem(sys.modules, "__main__", notebook)
        for number, cell in enumerate(cells):
            name = f"<cell {number}>"
            linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
            exec(compile(cell, name, "exec"), notebook.__dict__)  # noqa: S102 - as a notebook does it
        found = Fingerprints(project=OnlyBelow(tmp_path)).of(notebook.root)
        assert found.unseen == []
        return found.digest

    first = run(
        ["RATE = 3\n", "def helper(v):\n    return v * RATE\n", "def root(v):\n    return helper(v)\n"]
    )
    same = run(
        ["RATE = 3\n", "# new\ndef helper(v):\n    return v * RATE\n", "def root(v):\n    return helper(v)\n"]
    )
    other = run(
        ["RATE = 3\n", "def helper(v):\n    return v + RATE\n", "def root(v):\n    return helper(v)\n"]
    )
    constant = run(
        ["RATE = 4\n", "def helper(v):\n    return v * RATE\n", "def root(v):\n    return helper(v)\n"]
    )
    assert first == same
    assert len({first, other, constant}) == 3


def test_a_function_without_source_is_named(tmp_path: Path) -> None:
    text = 'found = {}\nexec("def inner(v): return v", globals())\n\ndef root(v):\n    return inner(v)\n'
    found = fingerprint(tmp_path, {"main.py": text})
    assert ("no source", "main.inner") in [(one.what, one.name) for one in found.unseen]


def test_a_compiled_module_counts_by_its_bytes_and_is_named(tmp_path: Path) -> None:
    import py_compile

    digests = []
    for number, text in enumerate(["def inner(v):\n    return v\n", "def inner(v):\n    return v + 1\n"]):
        folder = tmp_path / str(number)
        write(folder, {"main.py": "import fast\n\ndef root(v):\n    return fast.inner(v)\n", "fast.py": text})
        py_compile.compile(str(folder / "fast.py"), cfile=str(folder / "fast.pyc"))
        (folder / "fast.py").unlink()
        with imported(folder) as load:
            found = Fingerprints(project=OnlyBelow(folder)).of(load("main").root)
        digests.append(found.digest)
        assert ("compiled", "fast") in [(one.what, one.name) for one in found.unseen]
    assert digests[0] != digests[1]


def test_installed_packages_are_named_with_their_version(tmp_path: Path) -> None:
    text = (
        "import msgspec\nfrom lmdb import open as o\n\ndef root(v):\n    return msgspec.json.encode(v), o\n"
    )
    found = fingerprint(tmp_path, {"main.py": text})
    assert sorted(found.packages) == ["lmdb", "msgspec"]
    assert all(found.packages.values())


def test_an_installed_project_counts_if_it_is_declared(tmp_path: Path) -> None:
    files = {"site-packages/wares/__init__.py": "def root(v):\n    return v + 1\n"}
    digests = []
    for number, text in enumerate(["v + 1", "v + 2"]):
        folder = tmp_path / str(number)
        write(folder, {name: one.replace("v + 1", text) for name, one in files.items()})
        with imported(folder / "site-packages") as load:
            root = load("wares").root
            digests.append([Fingerprints().of(root).digest, Fingerprints(["wares"]).of(root).digest])
    assert digests[0][0] == digests[1][0]
    assert digests[0][1] != digests[1][1]


def test_a_module_that_a_function_imports_later_is_read_and_not_executed(tmp_path: Path) -> None:
    main = "def root(v):\n    from later import run\n    return run(v)\n"
    later = "raise SystemExit\nfrom helpers import helper\n\ndef run(v):\n    return helper(v)\n"
    digests = {
        fingerprint(
            tmp_path / number,
            {"main.py": main, "later.py": later, "helpers.py": f"def helper(v):\n    return v + {number}\n"},
        ).digest
        for number in ("1", "2")
    }
    assert len(digests) == 2


def test_a_step_that_is_defined_in_a_test_reaches_no_other_test(tmp_path: Path) -> None:
    """What a test or a conftest.py does to pytest is no logic of an app."""
    files = {
        "other.py": "import pytest\n\npytest.register_assert_rewrite('helpers')\n",
        "main.py": (
            "import pytest\n\n\ndef test_one():\n    with pytest.raises(ValueError):\n"
            "        int('x')\n\n    class Step:\n        def process(self, x):\n            return x\n\n"
            "    return Step\n\n\nroot = test_one()\n"
        ),
    }
    found = fingerprint(tmp_path, files, modules=("other", "main"))
    assert [one for one in found.units if one.startswith("other")] == []
