"""Benchmarks: `python -m benchmarks.<name>` measures one thing and reports whether its targets hold.

What a benchmark runs in its own process uses Arrow's allocator as the processes of slots do.
"""

import os

os.environ.setdefault("MIMALLOC_PURGE_DELAY", "10000")  # as tidegate.spark.session: before Arrow is loaded
