"""Run a slot order: open the log, import the app, run the slot. Needs no Spark in the process.

The log is open before anything of the user is imported, so that an error of the import is published there:
Spark would report only that an exception was thrown."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from tidegate.clock import Clock, SystemClock
from tidegate.errors import TidegateError
from tidegate.fingerprint import forget, use_roots
from tidegate.load import load_app
from tidegate.log import names
from tidegate.log.open import open_log
from tidegate.log.protocol import Log
from tidegate.runtime.driver.check_code import check_code
from tidegate.runtime.driver.prepare import attach
from tidegate.runtime.driver.run import Run
from tidegate.runtime.slot.job import SlotJob
from tidegate.runtime.topics.failures import refusal_of
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.runtime.topics.status import publish_status
from tidegate.serde.registry_settings import use_registry
from tidegate.spark.ship import import_version
from tidegate.upgrade.candidate import attach_candidate
from tidegate.upgrade.recalculation import attach_recalculation

CONTAINERS = 100_000
"""Container allocations between two garbage collections."""


FREED_BYTES = 64 << 20
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""As in glibc's malloc.h."""


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


def keep_freed_memory() -> None:
    """Let glibc keep freed memory for the next allocation, up to FREED_BYTES. Each fetch and each commit uses
    buffers of megabytes; returning their pages to the system and faulting them in again took 3 % of a slot's
    CPU."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, FREED_BYTES)
        mallopt(M_MMAP_THRESHOLD, FREED_BYTES // 2)


def run_order(data: bytes) -> Iterator[int]:
    """Run one attempt of a slot. Yields about once a second."""
    order = SlotOrder.decode(data)
    for path in order.paths:
        if path not in sys.path:
            sys.path.append(path)
    clock = SystemClock()
    with closing(open_log(order.log, clock=clock, create=False)) as log:
        try:
            run = _attached(order, log, clock)
        except Exception as error:
            refusal = refusal_of(error, order.epoch, order.slot, order.attempt)
            with suppress(TidegateError):
                publish_status(log, order.app_id, refusal, clock.now())
            raise
        keep_freed_memory()
        with rare_garbage_collection():
            for count, _ in enumerate(SlotJob(order, run, log, clock).run()):
                yield count


def _attached(order: SlotOrder, log: Log, clock: Clock) -> Run:
    """Import the version of the app that the driver has, and find out what it runs."""
    import_version(order.app, order.fingerprint)
    use_roots(order.roots)
    use_registry(order.registry)
    topology = load_app(order.app, order.settings).build()
    replay = order.replay
    if replay is not None and order.app_id == names.upgrade(topology.app):
        run, started = attach_candidate(topology, log, clock, replay, on_error=order.on_error)
    elif replay is not None:
        run = attach_recalculation(topology, order.app_id, log, clock, replay, on_error=order.on_error)
        started = run.manifest
    else:
        run = attach(
            topology,
            log,
            clock,
            generation=order.generation,
            on_error=order.on_error,
            origin_headers=order.origin_headers,
        )
        started = run.manifest
    check_code(topology, log, started)
    forget()  # the parsed source of a large project takes 100 MB
    return run
