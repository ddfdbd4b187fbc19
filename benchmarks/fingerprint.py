"""How long fingerprints of a project take, in a process of their own: cold, with nothing parsed before.

    python -m benchmarks.fingerprint [--json] [--quick]

The project is made for it: 350 modules of 100 lines with functions, classes, constants and decorators that
use each other. The parser of Python itself is measured in the same process, since machines are noisy.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.report import Report, run

MODULES, ROOTS, ROUNDS = 350, 200, 5
MODULE = '''"""Module {number} of the project."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field

from project.m{first} import Step as First, compute as first
from project import m{second} as second

LIMIT = {number} + 1
TABLE = {{name: len(name) + {number} for name in ("red", "green", "blue")}}


def logged(prefix: str):
    def around(function):
        @functools.wraps(function)
        def wrapper(value: int) -> int:
            return function(value) + len(prefix)

        return wrapper

    return around


@dataclass(frozen=True)
class Step:
    """A step with a rate."""

    name: str
    rate: int = LIMIT
    tags: list[str] = field(default_factory=list)

    def apply(self, value: int) -> int:
        if value > self.rate:
            return value - self.rate
        return self._scaled(value)

    def _scaled(self, value: int) -> int:
        total = 0
        for position, tag in enumerate(self.tags):
            total += position * len(tag) + value
        return total

    @property
    def label(self) -> str:
        return f"{{self.name}}:{{self.rate:>5}}"


def compute(value: int, *, by: int = 2) -> int:
    # what it reaches lies in two other modules
    return first(value) * by if value > LIMIT else TABLE.get(str(value), 0)


@logged("{number}")
def looked_up(value: int) -> int:
    step = First("a", tags=["x", "y"])
    return step.apply(value) + second.compute(value)


def encoded(values: list[int]) -> str:
    """Return the values as JSON."""
    found = [compute(one) for one in values if one % 2]
    match found:
        case []:
            return "[]"
        case [only]:
            return json.dumps({{"only": only, "limit": LIMIT}})
    return json.dumps(sorted(found))


def unused(value: int) -> int:
    local = value
    while local > 0:
        local -= 1
        try:
            local = int(local)
        except ValueError:
            continue
        finally:
            value += 1
    return value


class Unused:
    def __init__(self) -> None:
        self.values: dict[str, int] = {{}}

    def add(self, name: str, value: int) -> None:
        self.values[name] = self.values.get(name, 0) + value

    def __len__(self) -> int:
        return len(self.values)
'''
LAST = "class Step:\n    def __init__(self, *all, **named): ...\n    def apply(self, value): return value\n"
LAST += "def compute(value): return value\n"
TIMED = """
import ast, gc, importlib, json, sys, time
from pathlib import Path
modules = [importlib.import_module(f"project.m{number}") for number in reversed(range(int(sys.argv[1])))]
roots = [value for module in modules for value in (module.encoded, module.looked_up)][: int(sys.argv[2])]
from tidegate.fingerprint import Fingerprints
began = time.process_time()
prints = Fingerprints()
found = [prints.of(root) for root in roots]
seconds = time.process_time() - began
texts = [Path(module.__file__).read_text() for module in modules]
gc.disable()
began = time.process_time()
trees = [ast.parse(text) for text in texts]
parsing = time.process_time() - began
lines = sum(text.count("\\n") for text in texts)
print(json.dumps([seconds, parsing, lines, len(prints.units()), len({one.digest for one in found})]))
"""


def project(folder: Path, modules: int) -> None:
    """Write the project: each module uses two that are numbered higher."""
    (folder / "project").mkdir(parents=True)
    (folder / "project" / "__init__.py").write_text("")
    for number in range(modules):
        first, second = (min(modules, number + step) for step in (1 + number % 7, 11 + number % 13))
        text = MODULE.format(number=number, first=first, second=second)
        (folder / "project" / f"m{number}.py").write_text(text)
    (folder / "project" / f"m{modules}.py").write_text(LAST)


def timed(folder: Path, modules: int, roots: int) -> list[float]:
    found = subprocess.run(
        [sys.executable, "-c", TIMED, str(modules), str(roots)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    numbers: list[float] = json.loads(found.stdout)
    return numbers


def measure(report: Report, quick: bool) -> None:
    modules, roots = (50, 30) if quick else (MODULES, ROOTS)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project(folder, modules)
        rounds = [timed(folder, modules, roots) for _ in range(1 if quick else ROUNDS)]
    seconds, parsing, lines, units, _ = min(rounds)
    report.measured("source", lines, "lines")
    report.measured("reached", units, "units")
    report.below(f"fingerprints of {roots} roots, cold, on one core", seconds, "s", 1.0)
    report.measured("of which parsing takes", parsing, "s")


if __name__ == "__main__":
    run("fingerprint", measure)
