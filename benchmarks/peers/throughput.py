"""Throughput: records per second from the first committed output to the last, with CPU and memory.

Records of the first committed output are left out, and so is the start of the engine. CPU is that of the
engine's processes over the same time, the broker's beside it; memory is the sum of what all processes of the
engine held at the same moment.
"""

from __future__ import annotations

from benchmarks.peers.bench import Bench, Counted

TARGETS = (
    ("tidegate", "streams-tuned", 2.0),
    ("tidegate-process", "streams", 1.0),
    ("tidegate-process", "streams-tuned", 0.75),
    ("tidegate", "quix", 12.0),
)


def measure(bench: Bench) -> None:
    """Each engine in turn, on the same source."""
    found: dict[str, Counted] = {}
    for name, peer in bench.chosen.items():
        found[name] = one = bench.counted(name)
        bench.report.measured(f"{peer.name}: throughput", one.per_second, "records/s")
        bench.report.measured(f"{peer.name}: CPU", one.cpu_per_million, "s per million")
        bench.report.measured(f"{peer.name}: CPU of the broker", one.broker_cpu_per_million, "s per million")
        bench.report.measured(f"{peer.name}: peak memory", one.peak / 2**20, "MiB")
    for ours, theirs, target in TARGETS:
        if ours in found and theirs in found:
            name = f"throughput of {found[ours].peer.name}, times {found[theirs].peer.name}"
            bench.report.at_least(name, found[ours].per_second / found[theirs].per_second, "x", target)
