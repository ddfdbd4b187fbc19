"""CPU and memory of processes and all that they started, as Linux reports them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
LOOK_SECONDS = 0.2


class Seen(NamedTuple):
    """One process at one time."""

    parent: int
    cpu_seconds: float
    resident: int


def processes() -> dict[int, Seen]:
    """All processes that there are now."""
    found: dict[int, Seen] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        cpu = (int(fields[11]) + int(fields[12])) / TICKS
        found[int(folder.name)] = Seen(int(fields[1]), cpu, int(fields[21]) * PAGE)
    return found


def family(roots: Iterable[int], all_of_them: dict[int, Seen]) -> set[int]:
    """The processes and whatever they started."""
    children: dict[int, list[int]] = {}
    for pid, seen in all_of_them.items():
        children.setdefault(seen.parent, []).append(pid)
    found: set[int] = set()
    open_ones = [pid for pid in roots if pid in all_of_them]
    while open_ones:
        pid = open_ones.pop()
        if pid not in found:
            found.add(pid)
            open_ones += children.get(pid, [])
    return found


class Usage:
    """Looks several times a second while the block lasts, and at both of its ends. A process that ended keeps
    its last figure."""

    def __init__(self, roots: Callable[[], Iterable[int]]) -> None:
        self._roots = roots
        self._cpu: dict[int, float] = {}
        self._sums: list[tuple[float, float]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.peak = 0
        """Bytes of all of them together; pages that they share are counted in each."""

    def cpu_seconds(self, begin: float, end: float) -> float:
        """Of all of them between two moments of `time.monotonic`, as near as it was looked at."""
        return self._at(end) - self._at(begin)

    def _at(self, moment: float) -> float:
        return min(self._sums, key=lambda seen: abs(seen[0] - moment))[1]

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        now = processes()
        mine = family(self._roots(), now)
        for pid in mine:
            self._cpu[pid] = now[pid].cpu_seconds
        self._sums.append((time.monotonic(), sum(self._cpu.values())))
        self.peak = max(self.peak, sum(now[pid].resident for pid in mine))
