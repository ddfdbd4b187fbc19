"""Sinks in threads of the driver process: `app.start(spark, sinks=["NAME"])`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tidegate.clock import Clock
from tidegate.errors import SerdeError, StateError, TidegateError
from tidegate.log.protocol import Log
from tidegate.sinks.database import Database
from tidegate.sinks.running import LONGEST_WAIT_SECONDS, Noticed, make_sink, run_sink
from tidegate.sinks.settings import SinkSettings
from tidegate.sinks.sink import Rereading, Sink
from tidegate.topology.graph import Topology

MakeSink = Callable[[Noticed], tuple[Sink, Database]]


def sink_maker(log: Log, settings: SinkSettings, folder: Path, topology: Topology, clock: Clock) -> MakeSink:
    """Return a function that makes the sink, with what it calls for notices."""
    return lambda noticed: make_sink(log, settings, folder, topology, clock, noticed)


class SinkThread:
    """A sink in a thread of the driver process. It reports failures and goes on trying until it is closed."""

    def __init__(
        self,
        name: str,
        make: MakeSink,
        report: Callable[[TidegateError], bool],
    ) -> None:
        """`report` returns whether it could report the error; if not, it gets the next one."""
        self._name = name
        self._report = report
        self._reported = ""
        self._ended = threading.Event()
        self._sink, self._database = make(self._notice)
        self._thread = threading.Thread(target=self._work, name=f"tidegate-sink-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, *, catch_up: bool = False) -> None:
        """Finish the transaction and end; with `catch_up` first apply what is committed now."""
        self._ended.set()
        started = self._thread.ident is not None
        if started:
            self._thread.join()
        try:
            if catch_up and started:
                self._sink.follow(threading.Event(), until_caught_up=True)
        except TidegateError as error:
            self._troubled(error)
        finally:
            self._database.close()

    def _work(self) -> None:
        while not self._ended.is_set():
            try:
                run_sink(self._sink, self._ended, self._troubled)
            except Exception as error:  # noqa: BLE001 - reported; the thread must go on
                self._troubled(StateError("sink-failed", f"{type(error).__name__}: {error}"))
                self._ended.wait(LONGEST_WAIT_SECONDS)

    def _troubled(self, error: TidegateError) -> bool:
        """Report an error once, however often it repeats."""
        if str(error) != self._reported:
            message = f"sink {self._name!r}: {error.message}"
            with suppress(TidegateError):
                if self._report(StateError(error.code, message, error.hint)):
                    self._reported = str(error)
        return True

    def _notice(self, found: Rereading | SerdeError) -> None:
        if isinstance(found, SerdeError):
            self._troubled(found)
