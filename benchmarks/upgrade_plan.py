"""The part `plan` of `benchmarks.upgrade`: how long the plan of a large app takes.

The project has 70 modules with 35,000 lines; its app has 200 steps in 20 components, whose functions reach
helpers in several modules. Each plan is made with nothing cached: all source files are parsed.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.report import Report, median
from tidegate.clock import SystemClock
from tidegate.load import load_app
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.prepare import prepare
from tidegate.upgrade.make_plan import make_plan
from tidegate.upgrade.plan import UpgradePlan

MODULES, FUNCTIONS, LINES = 70, 25, 20
COMPONENTS, MAPS = 20, 6
PROJECT = "upgrade_project"
TARGET_SECONDS = 1.0


def write_project(folder: Path, modules: int) -> int:
    """Write the project; return the number of its lines."""
    package = folder / PROJECT
    package.mkdir()
    (package / "__init__.py").write_text("")
    for number in range(modules):
        (package / f"part{number}.py").write_text(_module(number))
    (package / "app.py").write_text(_app(modules))
    return sum(path.read_text().count("\n") for path in package.glob("*.py"))


def _module(number: int) -> str:
    """A module whose functions call one another, and the first one of the module before."""
    lines = ["from __future__ import annotations", ""]
    if number:
        lines += [f"from {PROJECT}.part{number - 1} import step0 as before", ""]
    lines += [f"LIMIT = {number}", ""]
    for at in range(FUNCTIONS):
        called = f"step{at - 1}(value)" if at else ("before(value)" if number % 10 else "value")
        body = [f"    part{line} = value * {line} + LIMIT" for line in range(LINES - 7)]
        head = ["", f"def step{at}(value: int) -> int:", f'    """Step {at}."""']
        lines += [*head, *body, f"    if value > {at}:", f"        return {called}", "    return value", ""]
    return "\n".join(lines) + "\n"


def _app(modules: int) -> str:
    lines = ["from tidegate import App, TableTopic, Topic", ""]
    lines += [f"from {PROJECT} import part{number}" for number in range(modules)]
    lines += ["", 'app = App("large")']
    for number in range(COMPONENTS):
        module = f"part{number * modules // COMPONENTS}"
        maps = "".join(f".map({module}.step{at * 3})" for at in range(MAPS))
        lines.append(
            f'app.stream(Topic("in{number}", int)){maps}.filter(bool)'
            f'.sum("sums{number}", {module}.step9).to(TableTopic("out{number}", int))'
        )
    return "\n".join(lines) + "\n"


@contextmanager
def project(modules: int) -> Iterator[tuple[Path, int]]:
    with tempfile.TemporaryDirectory() as folder:
        lines = write_project(Path(folder), modules)
        sys.path.insert(0, folder)
        try:
            yield Path(folder), lines
        finally:
            sys.path.remove(folder)
            forget()


def forget() -> None:
    """Import the project again, as a new process does."""
    for name in [name for name in sys.modules if name.partition(".")[0] == PROJECT]:
        del sys.modules[name]
    importlib.invalidate_caches()


def timed(log: SqliteLog) -> tuple[float, UpgradePlan]:
    """Plan the project as it is now; return the seconds without its import."""
    forget()
    topology = load_app(f"{PROJECT}.app:app").build()
    begun = time.perf_counter()
    made = make_plan(log, topology, SystemClock())
    return time.perf_counter() - begun, made


def measure(report: Report, quick: bool) -> None:
    modules = 10 if quick else MODULES
    with project(modules) as (folder, lines), closing(SqliteLog(folder / "log.db")) as log:
        report.progress(f"plan of a project of {lines:,} lines")
        for number in range(COMPONENTS):
            log.create(TopicSpec(f"in{number}", 4))
        topology = load_app(f"{PROJECT}.app:app").build()
        prepare(topology, log, SystemClock())
        report.measured("plan: lines of the project", lines, "lines")
        report.measured("plan: steps of the app", len(topology.nodes), "steps")
        rounds = [timed(log) for _ in range(3 if quick else 7)]
        assert all(made.state == "nothing" for _, made in rounds), rounds[0][1].questions
        report.below("plan: nothing changed", median([one for one, _ in rounds]), "s", TARGET_SECONDS)
        helper = folder / PROJECT / "part0.py"
        helper.write_text(helper.read_text().replace("value * 3 + LIMIT", "value * 4 + LIMIT", 1))
        rounds = [timed(log) for _ in range(3 if quick else 7)]
        assert all(made.state == "changes" for _, made in rounds), rounds[0][1].questions
        report.below("plan: a helper changed", median([one for one, _ in rounds]), "s", TARGET_SECONDS)
        command = [sys.executable, "-m", "tidegate", "plan", f"{PROJECT}.app:app", "--json"]
        begun = time.perf_counter()
        ended = subprocess.run(
            [*command, "--log", f"sqlite:///{folder / 'log.db'}"],
            cwd=folder,
            capture_output=True,
            check=False,
        )
        assert ended.returncode == 2, ended.stderr
        report.measured("plan: the whole command", time.perf_counter() - begun, "s")
