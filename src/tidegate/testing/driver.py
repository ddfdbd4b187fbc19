"""A topology in a unit test: many partitions, a clock to move, crashes to place, and no JVM.

    with Driver(app, partitions=3) as d:
        d.send(ORDERS, "ada", Order(1, 500))
        d.crash(at=Commit.LOG_COMMITTED)
        d.run()
        assert d.rows(TOTALS) == {"ada": Totals(1, 500)}

It runs the task code that runs on Spark, on a real log (in memory unless one is given) and real stores.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload

from tidegate.app import App
from tidegate.clock import ManualClock
from tidegate.connect.connection import Connection
from tidegate.errors import ConfigError, TidegateError
from tidegate.log.protocol import Log
from tidegate.log.records import Headers
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.run import Run
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.task.task import StreamTask
from tidegate.runtime.topics.upgrades import UpgradeEntry
from tidegate.serde.registry_settings import use_registry
from tidegate.state.builder import StoreBuilder
from tidegate.state.manager import Limits
from tidegate.testing.draining import WAIT_SECONDS, drain_here
from tidegate.testing.faults import Commit, Crash, ErrorKind, Faults
from tidegate.testing.gates import GateView
from tidegate.testing.laws import with_checked_reducers
from tidegate.testing.models import ModelView
from tidegate.testing.outputs import DriverOutputs
from tidegate.testing.previews import preview_here
from tidegate.testing.stages import check_session, stages_on
from tidegate.testing.upgrades import upgrade_here
from tidegate.testing.views import Discards, Outcome, StoreView, seen_records, store_view
from tidegate.topics import TableTopic, Topic
from tidegate.topology.node import SINKS, OnError
from tidegate.upgrade.consent import Consent
from tidegate.upgrade.previews import Preview
from tidegate.upgrade.publication import complete
from tidegate.upgrade.runners import RunningStage

K = TypeVar("K")
V = TypeVar("V")

__all__ = ["Commit", "Driver", "Outcome", "StoreView"]


class Driver(DriverOutputs):
    """Runs an app in this process. `send` appends; `run` restores, processes everything, commits.

    A topic declared without a number of partitions gets `partitions`; the stream tasks are spread over
    `slots`. Only faults placed with `crash` or `faults` happen. `run` raises an error of the app; the next
    `run` starts again from what was committed.
    """

    def __init__(
        self,
        app: App,
        *,
        partitions: int = 1,
        slots: int = 1,
        log: Log | None = None,
        clock: ManualClock | None = None,
        on_error: OnError = "stop",
        batches: bool = True,
        origin_headers: bool = False,
        limits: Limits | None = None,
        spark: Any = None,
        registry: Mapping[str, Any] | None = None,
    ) -> None:
        """`spark` is a session for the DataFrame stages of the app; the log is a file then. `registry` is
        the section [registry], for topics with schemas: {"url": "mock://here"} needs no server."""
        topology = app.build()
        check_session(topology, spark)
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-driver-"))
        self._spark = spark
        self._stages: Sequence[RunningStage] = ()
        self.clock = clock or ManualClock()
        self.log = log or SqliteLog(self._folder / "log.db" if spark else None, clock=self.clock)
        self._own_log = log is None
        self._partitions = partitions
        self._slots = slots
        self._on_error = on_error
        self._batches = batches
        self._origin_headers = origin_headers
        self._limits = limits or Limits(sync=False)
        self._host, self._hosts = "host-0", 1
        self._faults = Faults()
        self._listener = Discards()
        self._run: Run | None = None
        self._open: list[Slot] = []
        self._failed = False
        super().__init__(app, topology, Connection(self.log, partitions=partitions, clock=self.clock))
        self._registry_before = [] if registry is None else [use_registry(registry)]

    # --- input ----------------------------------------------------------------------------------------

    @overload
    def send(
        self,
        topic: Topic[K, V],
        key: K | None,
        *values: V,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> None: ...
    @overload
    def send(
        self,
        topic: TableTopic[K, V],
        key: K,
        *values: V | None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> None: ...
    def send(
        self, topic: Any, key: Any, *values: Any, timestamp: int | None = None, headers: Headers = ()
    ) -> None:
        """Append records to a topic: at a time, or at the clock's time. A None value deletes a row."""
        self._connection.send(topic, key, *values, timestamp=timestamp, headers=headers)

    def advance(self, millis: int) -> None:
        """Move the wall clock forward."""
        self.clock.advance(millis)

    # --- faults -------------------------------------------------------------------------------------

    def crash(self, at: Commit | str, arrival: int = 1, *, elsewhere: bool = False) -> None:
        """Crash the process in the next run, right before a step, when it is reached for the n-th time; then
        it starts again, with `elsewhere` on another host. Several crashes happen in the order in which they
        were placed. A crash that does not happen is an AssertionError."""
        self._faults.crash(at, arrival, elsewhere=elsewhere)

    def faults(
        self, at: Commit | str, error: ErrorKind | Exception = "exception", *, arrival: int = 1
    ) -> None:
        """Raise an error in the next run: its slot drops everything, the others close cleanly, and all start
        again. The result of a commit may be unknown at log.commit.7 (it does not count) and at
        log.commit.8 (it does)."""
        self._faults.fail(at, arrival, error)

    def move(self, host: str | None = None) -> None:
        """Close cleanly, and start the next run on another host: a new one, unless it is named. The state
        on a host stays there."""
        self.stop()
        self._to_host(host)

    @property
    def happened(self) -> list[str]:
        """The crashes and errors that happened, in order."""
        return list(self._faults.happened)

    @property
    def reached(self) -> Counter[str]:
        """How often each fault point was reached."""
        return Counter(self._faults.reached)

    @property
    def discarded(self) -> list[str]:
        """Stores whose state on the host could not be reused, and that were rebuilt from the log."""
        return list(self._listener.rebuilt)

    # --- work -----------------------------------------------------------------------------------------

    def run(self) -> None:
        """Restore, process everything there is, commit. Placed faults happen on the way."""
        with self._faults.armed():
            while True:
                try:
                    self._work()
                except Crash as crash:
                    self._drop()
                    if crash.elsewhere:
                        self._to_host(None)
                except BaseException as error:
                    self._failed = True
                    if not self._faults.caused(error):
                        raise
                else:
                    return

    def stop(self) -> None:
        """Commit and close cleanly; the next run starts again."""
        self._run = None
        while self._open:
            slot = self._open.pop(0)
            try:
                slot.close()
            except BaseException:
                slot.drop()
                raise

    def _work(self) -> None:
        if self._failed:
            self._failed = False
            self.stop()
        run = self._run or self._start()
        idle, wait = 0, 0.0
        while idle < 2:
            busy = sum(len(slot.tasks) for slot in self._open) < len(run.tasks())
            for slot in list(self._open):
                busy |= self._step_slot(slot, wait)
            for stage in self._stages:
                busy |= stage.step()
            idle, wait = 0 if busy else idle + 1, 0.0
            if idle == 2 and not all(slot.drained() for slot in self._open):
                idle, wait = 1, WAIT_SECONDS

    def _drain(self) -> None:
        """Process internal topics to their ends, no more records of sources, and close."""
        drain_here(self._run or self._start(), self._open, self._stages, self._step_slot)
        self.stop()

    def _step_slot(self, slot: Slot, wait: float) -> bool:
        """Run one step of a slot and commit. A slot that fails is unusable."""
        try:
            busy = slot.step(wait)
            slot.commit()
        except BaseException:
            self._open.remove(slot)
            raise
        return busy

    def _prepared(self) -> Run:
        complete(self.log, self._app.id, self.clock)
        return prepare(
            with_checked_reducers(self._app.build()),
            self.log,
            self.clock,
            partitions=self._partitions,
            on_error=self._on_error,
            batches=self._batches,
            origin_headers=self._origin_headers,
        )

    def _start(self) -> Run:
        run = self._prepared()
        self._open = run.slots(self._folder / self._host, self._slots, self._limits, self._listener)
        if self._spark is not None:
            self._stages = stages_on(self._spark)(run)
        self._run = run
        return run

    def _to_host(self, host: str | None) -> None:
        self._host = host or f"host-{self._hosts}"
        self._hosts += 1

    def gate(self, name: str) -> GateView:
        """Return a gate of the app. Its topics are created; the next run applies requested statuses."""
        run = self._run or self._prepared()
        return GateView(name, run, self.log, self.clock, self._tasks)

    def model(self, name: str) -> ModelView:
        """Return a model of the app. Its topics are created; the next run decides on requests."""
        return ModelView(name, self._run or self._prepared(), self.log, self.clock)

    def preview(self, app: App) -> Preview:
        """Return what another version of the app would change in the table topics. Run first."""
        check_session(app.build(), self._spark)
        folder, stages = self._folder, stages_on(self._spark)
        return preview_here(app, self.log, self.clock, folder, self._partitions, self._on_error, stages)

    def upgrade(self, app: App, consent: Consent | None = None) -> UpgradeEntry | None:
        """Upgrade to another version of the app: the old one finishes what is in its internal topics, what
        changed is recalculated, and the rows that differ are published (`published`). Rows may be removed,
        however many; everything else that must be decided raises UpgradeError `upgrade-waits`, as for
        `tidegate upgrade`, unless the `consent` allows it. Returns the upgrade; None if nothing changed.
        Placed faults happen on the way; the next `run` runs the new version."""
        check_session(app.build(), self._spark)
        if self._open:
            self._drain()
        self.stop()
        self._mark_published()
        allowed = consent or Consent(max_removed=1.0)
        with self._faults.armed():
            while True:
                try:
                    found = upgrade_here(
                        app,
                        self.log,
                        self.clock,
                        self._folder / self._host,
                        allowed,
                        partitions=self._partitions,
                        on_error=self._on_error,
                        batches=self._batches,
                        open_stages=stages_on(self._spark),
                    )
                except Crash:
                    continue
                except BaseException as error:
                    if not self._faults.caused(error):
                        raise
                else:
                    break
        self._app, self._topology = app, app.build()
        return found

    def _tasks(self) -> list[StreamTask]:
        return [task for slot in self._open for task in slot.tasks]

    # --- state ----------------------------------------------------------------------------------------

    def store(self, store: str | StoreBuilder[Any]) -> StoreView:
        """Return the rows of the tasks' stores of this name, and those of the changelog. Run first."""
        name = store if isinstance(store, str) else store.name
        if name not in self._stores():
            hint = f"it has: {', '.join(self._stores()) or 'none'}"
            raise ConfigError("no-such-store", f"the app has no store {name!r}", hint)
        if not self._open:
            raise ConfigError("not-running", "the driver does not run", "call run() first")
        return store_view(name, self._tasks(), self.log)

    def outcome(self) -> Outcome:
        """Return all topics and stores, to compare with those of another run. Run first."""
        run = self._run
        if run is None:
            raise ConfigError("not-running", "the driver does not run", "call run() first")
        written: dict[str, Any] = {
            node.topic.name: node.topic
            for node in self._topology.nodes.values()
            if node.topic is not None and node.kind in SINKS
        }
        internal = {name: seen_records(self.log, name) for name in run.manifest.internal.values()}
        return Outcome(
            {topic.name: self.by_partition(topic) for topic in written.values()} | internal,
            {name: self.store(name).partitions for name in self._stores()},
        )

    def assert_stores_match_changelogs(self) -> None:
        """Check that every store equals the fold of its changelog, partition by partition (I6)."""
        for name in self._stores():
            view = self.store(name)
            for partition, logged in view.changelogs.items():
                held = view.partitions[partition]
                if held != logged:
                    raise AssertionError(f"store {name!r}, partition {partition}: {held} is not {logged}")

    def _stores(self) -> list[str]:
        found = [store.name for node in self._topology.nodes.values() for store in node.stores]
        return list(dict.fromkeys(found))

    # --- closing --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close cleanly if that is still possible, and remove everything."""
        try:
            self.stop()
        except TidegateError:
            self._drop()
        finally:
            if self._own_log:
                self.log.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            if self._registry_before:
                use_registry(self._registry_before.pop())

    def _drop(self) -> None:
        self._run = None
        while self._open:
            self._open.pop().drop()

    def __enter__(self) -> Driver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
