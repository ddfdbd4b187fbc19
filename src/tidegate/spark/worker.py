"""Run a slot order: import the app, open the log, run the slot. Needs no Spark in the process."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

from tidegate.clock import SystemClock
from tidegate.load import load_app
from tidegate.log.open import open_log
from tidegate.runtime.driver.prepare import attach
from tidegate.runtime.slot.job import SlotJob
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.serde.registry_settings import use_registry
from tidegate.spark.ship import import_version

CONTAINERS = 100_000
"""Container allocations between two garbage collections."""


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Collect garbage less often: records are many lists and tuples without cycles, which the default
    thresholds would scan repeatedly. Objects that exist at the start are not scanned meanwhile."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(CONTAINERS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def run_order(data: bytes) -> Iterator[int]:
    """Run one attempt of a slot. Yields about once a second."""
    order = SlotOrder.decode(data)
    for path in order.paths:
        if path not in sys.path:
            sys.path.append(path)
    import_version(order.app, order.fingerprint)
    use_registry(order.registry)
    app = load_app(order.app, order.settings)
    clock = SystemClock()
    with rare_garbage_collection(), closing(open_log(order.log, clock=clock, create=False)) as log:
        run = attach(app.build(), log, clock, on_error=order.on_error)
        for count, _ in enumerate(SlotJob(order, run, log, clock).run()):
            yield count
