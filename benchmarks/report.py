"""What all benchmarks share: results with targets, the table, `--json` and `--quick`.

    def measure(report: Report, quick: bool) -> None:
        report.measured("read", 3_600_000, "records/s")
        report.at_least("read, times a plain table", [7.9, 8.2, 7.1, 7.7, 8.0], "x", 5)

    if __name__ == "__main__":
        run("log", measure)

Machines differ and are noisy, so what is promised is a ratio of things measured in turns in the same run, in
several rounds. The value is their median; a target holds if the median and four of five rounds do.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

MOST_ROUNDS = 0.8


@dataclass(frozen=True, slots=True)
class Result:
    """One number, None where it could not be measured. `target` is the promise in words; None
    where nothing was."""

    name: str
    value: float | None
    unit: str
    target: str | None = None
    holds: bool | None = None
    rounds: tuple[float, ...] = ()
    """What each round gave, where there were several."""


@dataclass(slots=True)
class Report:
    """The results of one run, in the order in which they came."""

    benchmark: str
    machine: dict[str, str | int | float]
    results: list[Result] = field(default_factory=list)
    progress: Callable[[str], None] = lambda _: None
    """Prints what is being measured now: a run takes long."""

    def measured(self, name: str, value: float | Sequence[float], unit: str) -> None:
        """A number, or one of each round, of which nothing was promised."""
        middle, rounds = _middle(value)
        self.results.append(Result(name, middle, unit, rounds=rounds))

    def at_least(self, name: str, value: float | Sequence[float], unit: str, target: float) -> None:
        """A number, or one of each round, that should reach the target."""
        self._judged(name, value, unit, f">= {target:g}", lambda one: one >= target)

    def at_most(self, name: str, value: float | Sequence[float], unit: str, target: float) -> None:
        """A number, or one of each round, that should not pass the target."""
        self._judged(name, value, unit, f"<= {target:g}", lambda one: one <= target)

    def below(self, name: str, value: float | Sequence[float], unit: str, target: float) -> None:
        """A number, or one of each round, that should stay under the target."""
        self._judged(name, value, unit, f"< {target:g}", lambda one: one < target)

    def _judged(
        self,
        name: str,
        value: float | Sequence[float],
        unit: str,
        target: str,
        holds: Callable[[float], bool],
    ) -> None:
        middle, rounds = _middle(value)
        enough = sum(map(holds, rounds)) >= MOST_ROUNDS * len(rounds)
        self.results.append(Result(name, middle, unit, target, holds(middle) and enough, rounds))

    def missing(self, name: str, unit: str, target: str, why: str) -> None:
        """A number that could not be measured: its target is not reached, and the result has the reason."""
        self.results.append(Result(f"{name} ({why})", None, unit, target, holds=False))

    def as_json(self) -> str:
        """The one object that `--json` prints."""
        results = [asdict(result) for result in self.results]
        for result in results:
            if not result["rounds"]:
                del result["rounds"]
        return json.dumps({"benchmark": self.benchmark, "machine": self.machine, "results": results})

    def table(self) -> Table:
        """The table that people read."""
        table = Table(title=f"benchmarks.{self.benchmark}", caption=describe(self.machine))
        table.add_column("measured")
        table.add_column("value", justify="right")
        table.add_column("unit")
        table.add_column("rounds", justify="right")
        table.add_column("target", justify="right")
        table.add_column("holds")
        for result in self.results:
            holds = "" if result.holds is None else "[green]yes" if result.holds else "[bold red]NO"
            value = "not measured" if result.value is None else shown(result.value)
            table.add_row(result.name, value, result.unit, spread(result.rounds), result.target or "", holds)
        return table


def run(
    benchmark: str, measure: Callable[[Report, bool], None], arguments: Sequence[str] | None = None
) -> None:
    """Read the options, measure, print. A missed target is reported, not raised: it is a result too."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{benchmark}")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--quick", action="store_true", help="measure less, for a first impression")
    options = parser.parse_args(arguments)
    report = Report(benchmark, machine(), progress=lambda what: print(f"... {what}", file=sys.stderr))
    measure(report, options.quick)
    if options.json:
        print(report.as_json())
    else:
        Console(width=None if sys.stdout.isatty() else 120).print(report.table())


def run_parts(
    benchmark: str,
    parts: Mapping[str, Callable[[Report, bool], None]],
    arguments: Sequence[str] | None = None,
) -> None:
    """As `run`, for a benchmark in parts: `--parts` names those to measure. If one fails, what was measured
    before it is printed too."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{benchmark}")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--quick", action="store_true", help="measure less, for a first impression")
    parser.add_argument("--parts", default=",".join(parts), help=f"some of {', '.join(parts)}")
    options = parser.parse_args(arguments)
    chosen = [part for part in options.parts.split(",") if part]
    if unknown := sorted(set(chosen) - set(parts)):
        parser.error(f"unknown parts: {', '.join(unknown)}; known: {', '.join(parts)}")
    report = Report(benchmark, machine(), progress=lambda what: print(f"... {what}", file=sys.stderr))
    try:
        for part in chosen:
            parts[part](report, options.quick)
    finally:
        if options.json:
            print(report.as_json())
        else:
            Console(width=None if sys.stdout.isatty() else 140).print(report.table())


def _middle(value: float | Sequence[float]) -> tuple[float, tuple[float, ...]]:
    """The median, and the rounds if there were several."""
    if not isinstance(value, Sequence):
        return value, ()
    return median(value), tuple(value) if len(value) > 1 else ()


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of all do not pass: always one that was measured."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def machine() -> dict[str, str | int | float]:
    """The machine in words that show how fast it is, and not which or whose it is."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "system": platform.system(),
        "processor": processor(Path("/proc/cpuinfo")),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_gib": round(memory, 1),
        "python": platform.python_version(),
    }


def processor(cpuinfo: Path) -> str:
    """The processor's model where the system reports it, else its architecture."""
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    return platform.machine()


def describe(facts: dict[str, str | int | float]) -> str:
    """The machine in one line."""
    return (
        f"{facts['system']}, {facts['cores']} cores ({facts['processor']}), "
        f"{facts['memory_gib']} GiB, Python {facts['python']}"
    )


def spread(rounds: Sequence[float]) -> str:
    """The smallest and the largest of several rounds."""
    return f"{shown(min(rounds))} to {shown(max(rounds))}" if rounds else ""


def shown(value: float) -> str:
    """A number with three digits that count, or whole and in groups of three where it is large."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if abs(value) >= 10 else 2}f}"
