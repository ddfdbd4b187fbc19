"""What Spark runs for a slot, without Spark."""

from __future__ import annotations

import subprocess
import sys

ORPHAN = """
import os, sys, time
from tidegate.spark import slot_task
runs, beat = os.pipe()
def beats(order):
    while True:
        os.write(beat, b".")
        time.sleep(0.02)
        yield 0
slot_task.run_order = beats
if os.fork():
    os.read(runs, 1)
    print("parent ends", flush=True)
    os._exit(0)
slot_task.run_slot(b"", [0])
print("slot ends", flush=True)
"""


def test_a_slot_ends_when_the_process_that_forked_it_is_gone() -> None:
    """Spark's daemon goes with the executor; one that was killed cannot take its workers with it."""
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split("\n")[:2] == ["parent ends", "slot ends"]
