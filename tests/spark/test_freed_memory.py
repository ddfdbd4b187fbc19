"""A slot keeps the memory that it frees: pages that the system took back are missing at the next use."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

USE = """
import ctypes, resource
from tidegate.spark.worker import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        buffers = [b"x" * (20 << 20), b"y" * (20 << 20)]
        del buffers
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

NO_HUGE_PAGES = 41  # of prctl: one of them would stand for 512 pages
ctypes.CDLL(None).prctl(NO_HUGE_PAGES, 1, 0, 0, 0)
missing = faults()
keep_freed_memory()
faults()
print(missing, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_a_slot_uses_freed_memory_again() -> None:
    done = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 20_000
    assert after < before / 10
