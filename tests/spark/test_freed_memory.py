"""A slot keeps the memory that it frees for a while: pages that the system took back are missing at the next
use."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from tidegate.spark.session import ARROW_MEMORY_MS, KEEPS_ARROW_MEMORY

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


ARROW = """
import ctypes, resource, time
import pyarrow as pa

NO_HUGE_PAGES = 41
ctypes.CDLL(None).prctl(NO_HUGE_PAGES, 1, 0, 0, 0)

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        buffers = [pa.repeat(pa.scalar(7), 1 << 20) for _ in range(2)]
        del buffers
        time.sleep(0.05)
        pa.repeat(pa.scalar(7), 10)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
print(pa.default_memory_pool().backend_name, faults())
"""


def test_arrow_uses_freed_memory_again() -> None:
    def missing(environment: dict[str, str]) -> int:
        ran = subprocess.run(
            [sys.executable, "-c", ARROW],
            env=without | environment,
            capture_output=True,
            text=True,
            check=True,
        )
        allocator, faults = ran.stdout.split()
        if allocator != "mimalloc":
            pytest.skip(f"only mimalloc has this setting; Arrow uses {allocator} here")
        return int(faults)

    without = {name: value for name, value in os.environ.items() if name != KEEPS_ARROW_MEMORY}
    # When it gives memory back is up to the allocator: in one run of ten not within this half second.
    before = next((found for _ in range(10) if (found := missing({})) > 1000), 0)
    assert before
    assert missing({KEEPS_ARROW_MEMORY: ARROW_MEMORY_MS}) < before / 10


def test_the_setting_reaches_the_processes_of_slots(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ.get(KEEPS_ARROW_MEMORY)).collect()
    assert found == [ARROW_MEMORY_MS]
