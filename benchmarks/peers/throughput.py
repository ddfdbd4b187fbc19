"""Throughput: records per second from the first committed output to the last, with CPU and memory.

Records of the first committed output are left out, and so is the start of the engine. CPU is that of the
engine's processes over the same time, the broker's beside it; memory is the sum of what all processes of the
engine held at the same moment. Engines with a target are measured in turns, in several rounds, and those that
are compared one after the other: the speed of a rented core changes from one minute to the next. Quix, which
takes minutes, and those without a target are measured once.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peers.bench import Bench, Counted

TARGETS = (
    ("tidegate", "streams-tuned", 2.0),
    ("tidegate-process", "streams", 1.0),
    ("tidegate-process", "streams-tuned", 0.75),
    ("tidegate", "quix", 12.0),
)
IN_ROUNDS = ("tidegate", "streams-tuned", "tidegate-process", "streams")
"""Each is compared with one beside it."""


def measure(bench: Bench) -> None:
    """Each engine in turn, on the same source."""
    found: dict[str, list[Counted]] = {name: [] for name in bench.chosen}
    for number in range(bench.rounds):
        for name in IN_ROUNDS:
            if name in found:
                first = not found[name]
                found[name].append(
                    bench.counted(name) if first else bench.count(name, f"{name}-round-{number}")
                )
    for name, rounds in found.items():
        if not rounds:
            rounds.append(bench.counted(name))
        _show(bench, rounds)
    for ours, theirs, target in TARGETS:
        if ours in found and theirs in found:
            name = f"throughput of {found[ours][0].peer.name}, times {found[theirs][0].peer.name}"
            bench.report.at_least(name, _ratios(found[ours], found[theirs]), "x", target)


def _show(bench: Bench, rounds: Sequence[Counted]) -> None:
    name = rounds[0].peer.name
    for what, values, unit in (
        ("throughput", [one.per_second for one in rounds], "records/s"),
        ("CPU", [one.cpu_per_million for one in rounds], "s per million"),
        ("CPU of the broker", [one.broker_cpu_per_million for one in rounds], "s per million"),
        ("peak memory", [one.peak / 2**20 for one in rounds], "MiB"),
    ):
        bench.report.measured(f"{name}: {what}", values, unit)


def _ratios(ours: Sequence[Counted], theirs: Sequence[Counted]) -> list[float]:
    """Round by round; one that was measured once is compared with each round of the other."""
    if len(theirs) < len(ours):
        theirs = [theirs[0]] * len(ours)
    return [mine.per_second / other.per_second for mine, other in zip(ours, theirs, strict=True)]
