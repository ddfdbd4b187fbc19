"""An executor that refuses an order before the slot's job begins reports why; without Spark."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runtime.fleet import QUICK
from tests.waiting import HANG_SECONDS

from tidegate.clock import SystemClock
from tidegate.errors import ConfigError, TidegateError
from tidegate.fingerprint import use_roots
from tidegate.load import load_app
from tidegate.log import names
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.coordinator import Coordinator, DriverResources, Patience
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.takeover import Claim, take_over
from tidegate.runtime.slot.stage import Stage
from tidegate.runtime.topics.slot_order import SlotOrder
from tidegate.runtime.topics.status import Failure, decoded
from tidegate.spark import ship
from tidegate.spark.ship import fingerprint
from tidegate.spark.worker import _attached, run_order
from tidegate.topology.code import Code
from tidegate.topology.node_entries import node_entries
from tidegate.types import TopicPartition
from tidegate.upgrade.previews import run_preview
from tidegate.upgrade.runners import OnSlots

APP = """
from tidegate import App, TableTopic, Topic
from worker_helpers import doubled

app = App("refused")
app.stream(Topic("in", int)).map(doubled).sum("sums", int).to(TableTopic("out", int))
"""
HELPERS = "def doubled(value: int) -> int:\n    return value * {}\n"
FACTORY = """
from tidegate import App, Topic

def app():
    from worker_helpers import doubled
    made = App("refused")
    made.stream(Topic("in", int)).map(doubled).to(Topic("out", int))
    return made
"""
WITH_PATH = """
from pathlib import Path

from tidegate import App, TableTopic, Topic

FLAGS, LIMITS = Path("FOLDER/flags"), "FOLDER/limits"


def doubled(value: int) -> int:
    return value * len(FLAGS.parts) if LIMITS else value


app = App("refused")
app.stream(Topic("in", int)).map(doubled).sum("sums", int).to(TableTopic("out", int))
"""
NAME = "worker_app:app"
SPARK = "An exception was thrown from the Python worker"


class Project:
    """An app with a helper outside of its package, prepared on a log, and the orders of its slots."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "worker_app.py").write_text(APP)
        (folder / "worker_helpers.py").write_text(HELPERS.format(2))
        self.location = LogLocation(f"sqlite:///{folder}/log.db")
        self.sent = fingerprint(NAME)
        self.roots: list[str] = []

    def order(self, claim: Claim, slot: int, attempt: int) -> SlotOrder:
        return SlotOrder(
            app=NAME,
            app_id=claim.app,
            settings={},
            fingerprint=self.sent,
            log=self.location,
            folder=str(self.folder),
            state_dir="state",
            epoch=claim.epoch,
            slot=slot,
            attempt=attempt,
            writer=claim.writer_id(slot),
            commit_interval_ms=20,
            roots=self.roots,
        )

    def driver(self, log: Log, launcher: Executors, slots: int, patience: Patience) -> Coordinator:
        run = prepare(load_app(NAME).build(), log, SystemClock(), partitions=2)
        resources = DriverResources(run, log, launcher, self.order, SystemClock(), patience)
        return Coordinator(resources, slots)


class Executors:
    """A launcher whose jobs run in threads, and which reports their errors as little as Spark does."""

    def __init__(self) -> None:
        self.launched: list[tuple[int, int]] = []
        self._one_import = threading.Lock()

    def launch(self, order: SlotOrder) -> None:
        self.launched.append((order.slot, order.attempt))
        try:
            with self._one_import:  # executors are processes of their own
                for _ in run_order(order.encode()):
                    pass
        except Exception:  # noqa: BLE001 - as Spark
            raise RuntimeError(SPARK) from None

    def cancel(self, number: int) -> None: ...

    def room(self) -> int:
        return 2

    def cores(self) -> int:
        return 3

    def run_stage(
        self, stage: Stage, number: int, epoch: int, writer: str, stopped: threading.Event
    ) -> None: ...


def forget() -> None:
    for name in ("worker_app", "worker_helpers"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(ship, "_imported", {})  # as in a new process
    forget()
    yield Project(tmp_path)
    forget()


def other_package(project: Project) -> None:
    (project.folder / "worker_app.py").write_text(APP + "\n# edited\n")


def other_code(project: Project) -> None:
    (project.folder / "worker_helpers.py").write_text(HELPERS.format(3))


def broken(project: Project) -> None:
    (project.folder / "worker_helpers.py").write_text("raise OSError('no licence here')\n")


def without_helpers(project: Project) -> None:
    (project.folder / "worker_helpers.py").unlink()


def without_app(project: Project) -> None:
    (project.folder / "worker_app.py").unlink()


@pytest.mark.parametrize(
    ("edit", "code", "message"),
    [
        (other_package, "other-package", "another version of 'worker_app'"),
        (other_code, "other-code", "another version of worker_helpers:doubled"),
        (broken, "broken-app", "no licence here"),
        (without_helpers, "no-such-app", "no module 'worker_helpers'"),
        (without_app, "no-such-app", "worker_app"),
    ],
)
def test_a_driver_ends_with_the_error_of_executors_that_refuse_its_orders(
    project: Project, edit: Callable[[Project], None], code: str, message: str
) -> None:
    """Once for each slot: the same order would be refused again."""
    launcher = Executors()
    with closing(open_log(project.location, clock=SystemClock())) as log:
        driver = project.driver(log, launcher, 2, replace(QUICK, back_off_seconds=HANG_SECONDS))
        edit(project)
        forget()
        with pytest.raises(ConfigError, match=message) as caught:
            driver.run()
        assert [one.code for one in failures(log) if not one.by_driver] == [code, code]
    assert caught.value.code == code
    assert caught.value.hint
    assert sorted(launcher.launched) == [(0, 1), (1, 1)]


def test_an_error_that_is_not_of_tidegate_is_reported_and_tried_again(project: Project) -> None:
    """The function of an app may fail for a while."""
    launcher = Executors()
    (project.folder / "worker_app.py").write_text(FACTORY)
    project.sent = fingerprint(NAME)
    with closing(open_log(project.location, clock=SystemClock())) as log:
        driver = project.driver(log, launcher, 1, QUICK)
        broken(project)
        sys.modules.pop("worker_helpers", None)
        with pytest.raises(TidegateError, match="no licence here") as caught:
            driver.run()
    assert caught.value.code == "slot-failed"
    assert len(launcher.launched) == QUICK.failures + 1


def test_executors_with_other_code_are_refused_in_a_preview_with_both_fingerprints(project: Project) -> None:
    class Edited(Executors):
        def launch(self, order: SlotOrder) -> None:
            if not self.launched:
                other_code(project)
                forget()
            super().launch(order)

    with closing(open_log(project.location, clock=SystemClock())) as log:
        log.create(TopicSpec("in", 2))
        runner = OnSlots(Edited(), project.order, SystemClock(), QUICK, 1)
        topology = load_app(NAME).build()
        driver = Code(topology.module)
        node_entries(topology, {node: number for number, node in enumerate(topology.nodes)}, driver)
        with pytest.raises(ConfigError, match="another version of worker_helpers:doubled") as caught:
            run_preview(topology, log, SystemClock(), lambda _: runner, project.folder / "state")
        assert [topic for topic in log.names() if names.of_preview(topic)] == []
    assert caught.value.code == "other-code"
    there = driver.entry().units["worker_helpers:doubled"]
    assert f"{there.digest} at {there.location} there" in caught.value.message
    assert caught.value.message.count("worker_helpers.py:1") == 2


def test_a_path_in_the_folder_of_the_project_is_the_same_code_on_executors_that_have_it_in_a_zip_file(
    project: Project, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.folder / "worker_app.py").write_text(WITH_PATH.replace("FOLDER", str(project.folder)))
    project.sent = fingerprint(NAME)
    with closing(open_log(project.location, clock=SystemClock())) as log:
        topology = load_app(NAME).build()
        prepare(topology, log, SystemClock())
        project.roots = Code(topology.module).roots()
        shipped = ship.zip_package(NAME, tmp_path_factory.mktemp("shipped"))
        without_app(project)
        monkeypatch.syspath_prepend(str(shipped))
        forget()
        with closing(take_over(log, "refused", 1, SystemClock())) as claim:
            assert _attached(project.order(claim, 0, 1), log, SystemClock()).manifest.app == "refused"
        assert sys.modules["worker_app"].__file__ == f"{shipped}/worker_app.py"
    use_roots([])


def failures(log: Log) -> list[Failure]:
    """All failures in the status topic."""
    partition = TopicPartition(names.status("refused"), 0)
    batches = read_between(log, partition, 0, log.ends([partition])[partition])
    found = [decoded(value) for batch in batches for value in batch.column(3).to_pylist()]
    return [one for one in found if isinstance(one, Failure)]
