"""A seeded simulator: tasks, slots, crashes and zombies in one thread, held against a plain-Python oracle.

    from tests.simulator import simulate
    print(simulate(17))                             # or: python -m tests.simulator 17

A seed draws a small world (a log, some tasks and stores, perhaps a gate) and a few dozen actions: work,
commits and restores that are interrupted at their numbered steps, zombies that go on, keys that are paused
and resumed, lost folders, clocks that jump, compaction. Real are the app's topology, the takeover, slots,
stream tasks and gates, the stores, the changelogs, the restore, the commit and the embedded log;
`watched.py` looks at them from outside. Virtual are time, the death of a process (a drop loses what is not on
disk, and the writer's transaction stays open) and, in most seeds, the log (`model_log.py`).
"""

from __future__ import annotations

from tests.simulator.run import STEPS, Trace, simulate, simulate_all
from tests.simulator.violation import Violation

__all__ = ["STEPS", "Trace", "Violation", "simulate", "simulate_all"]
