"""The same source has the same fingerprint in Python 3.11, 3.12 and 3.13.

The interpreters are those of the machine, without any package. So `tidegate` and `msgspec` are replaced by a
few lines there, and in the process that it is compared with.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.fingerprint.folder import write
from tests.fingerprint.shop import SHOP
from tests.fingerprint.test_where_code_lies import ROOTS, SOURCE, printed

VERSIONS = ("3.12", "3.13")
STAND_INS = """
import sys, types

own = sys.modules["tidegate"] = types.ModuleType("tidegate")
own.__path__ = ["FOLDER"]
msgspec = sys.modules["msgspec"] = types.ModuleType("msgspec")

class StructType(type):
    def __new__(meta, name, bases, namespace, **options):
        return super().__new__(meta, name, bases, namespace)

    def __init__(cls, name, bases, namespace, **options):
        super().__init__(name, bases, namespace)

class Struct(metaclass=StructType):
    def __init__(self, *values, **named):
        names = [name for kind in type(self).__mro__ for name in vars(kind).get("__annotations__", {})]
        self.__dict__.update(dict(zip(names, values)), **named)

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __lt__(self, other):
        return sorted(vars(self).items()) < sorted(vars(other).items())

    def __hash__(self):
        return 0

class Settings(Struct):
    def counted(self):
        return dict(least=self.least)

class App:
    def __init__(self, name, kind=None):
        self.name = name

    def stream(self, topic):
        return self

    map = stream

for one in (Struct, Settings, App):
    one.__module__ = "tidegate.stand_in"
msgspec.Struct = Struct
msgspec.Meta = type("Meta", (), {})
own.Settings, own.App, own.Topic, own.operational = Settings, App, App, lambda value: value
""".replace("FOLDER", str(SOURCE / "tidegate"))
NEWER = """
def root[T](value: T, *, seen: list[T] | None = None) -> T:
    type Pair = tuple[T, T]
    return value
"""


def interpreter(version: str) -> str | None:
    """Find a Python of a version that can be started."""
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *map(str, sorted(folder.glob(f"{version}.*/bin/python")))]
    for python in filter(None, found):
        if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return python
    return None


@pytest.fixture(params=VERSIONS)
def python(request: pytest.FixtureRequest) -> str:
    found = interpreter(request.param)
    if found is None:
        pytest.skip(f"needs Python {request.param}, to compare with. Do: pyenv install {request.param}")
    return found


def test_versions_of_python_agree(tmp_path: Path, python: str) -> None:
    write(tmp_path, {**SHOP, "sitecustomize.py": STAND_INS})
    here = printed(tmp_path, "main", ROOTS, seed="0", cwd=tmp_path)
    there = printed(tmp_path, "main", ROOTS, seed="0", cwd=tmp_path, python=python)
    assert here == there


def test_syntax_that_only_newer_versions_have_is_read(tmp_path: Path, python: str) -> None:
    digests = set()
    for number, text in enumerate(
        [NEWER, NEWER.replace("tuple[T, T]", "tuple[T]"), NEWER.replace("[T](", "[T: int](")]
    ):
        folder = tmp_path / str(number)
        write(folder, {"main.py": text, "sitecustomize.py": STAND_INS})
        digests.add(printed(folder, "main", "root", seed="0", cwd=folder, python=python)[0]["root"][0])
    assert len(digests) == 3
