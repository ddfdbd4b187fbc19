"""Garbled files, full disks, closed folders, small maps: an error by name or a loud rebuild."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.state.store_bench import TASK, StoreBench

from tidegate import stores
from tidegate.errors import StateError
from tidegate.log.positions import Position
from tidegate.state import environment
from tidegate.state.environment import Environment, Metadata
from tidegate.state.manager import Limits, Owner, StateManager
from tidegate.state.open_here import is_open_here
from tidegate.state.protocol import QuietListener
from tidegate.state.restore import Restore

COUNTS = stores.key_value("counts", int)


class Loud(QuietListener):
    """Remembers what was thrown away."""

    def __init__(self) -> None:
        self.discarded: list[str] = []
        self.restored = 0

    def on_discard(self, store: str, partition: int, reason: str) -> None:  # noqa: ARG002
        self.discarded.append(reason)

    def on_batch(self, store: str, partition: int, end: int, count: int) -> None:  # noqa: ARG002
        self.restored += count


def filled(bench: StoreBench[stores.KeyValueStore[str, int]], rows: int = 2000) -> dict[str, int]:
    for number in range(rows):
        bench.store.put(f"key-{number}", number)
    bench.persist()
    return dict(bench.store.all())


def reopen(bench: StoreBench[Any], limits: Limits | None = None) -> Loud:
    """Open the bench's task again, in the usual way, with a listener."""
    loud = Loud()
    owner = Owner("app", TASK, bench.log.id)
    bench.state = StateManager(owner, bench.folder / "home", bench.clock, limits or Limits(sync=False))
    bench.state.register(bench.builder, "app-store-changelog")
    restore = Restore(bench.state, bench.log, bench.at, loud)
    restore.open()
    restore.run()
    return loud


def data_file(bench: StoreBench[stores.KeyValueStore[str, int]]) -> Path:
    [path] = bench.folder.glob("home/*/data.mdb")
    return path


@pytest.mark.parametrize("damage", ["head", "page", "short", "empty", "text"])
def test_a_garbled_file_is_rebuilt_with_a_warning(damage: str) -> None:
    with StoreBench(COUNTS) as bench:
        rows = filled(bench)
        bench.state.drop()
        path = data_file(bench)
        content = bytearray(path.read_bytes())
        if damage == "head":
            content[:8192] = os.urandom(8192)
        elif damage == "page":
            content[8192:] = os.urandom(len(content) - 8192)
        path.write_bytes(
            {
                "short": bytes(content[: len(content) // 2]),
                "empty": b"",
                "text": b"not a database\n" * 1000,
            }.get(damage, bytes(content))
        )
        loud = reopen(bench)
        assert dict(bench.store.all()) == rows
        assert loud.restored == len(rows)
        assert loud.discarded or damage == "empty"


def test_a_flipped_bit_in_a_value_is_never_read_as_another_value() -> None:
    seeds = random.Random(7)
    with StoreBench(COUNTS) as bench:
        rows = filled(bench)
        bench.state.drop()
        path = data_file(bench)
        content = path.read_bytes()
        values = [content.find((number + (1 << 63)).to_bytes(8, "big")) for number in range(100, 1900)]
        for place in seeds.sample([found for found in values if found >= 0], 40):
            damaged = bytearray(content)
            damaged[place + seeds.randrange(8)] ^= 1 << seeds.randrange(8)
            path.write_bytes(damaged)
            reopen(bench)
            with pytest.raises(StateError) as error:
                dict(bench.store.all())
            assert error.value.code == "corrupt-state"
            for key, value in rows.items():
                try:
                    assert bench.store.get(key) == value
                except StateError:
                    continue
            bench.state.drop()
            loud = reopen(bench)
            assert loud.discarded == ["a damaged row was found in it"]
            assert dict(bench.store.all()) == rows, "it was rebuilt from the log"
            bench.state.drop()


def test_metadata_that_cannot_be_read_or_has_another_format_is_rebuilt_with_a_warning() -> None:
    for raw in (b"garbage", None):
        with StoreBench(COUNTS) as bench:
            rows = filled(bench)
            bench.state.drop()
            environment = Environment(data_file(bench).parent, COUNTS.databases, sync=False)
            metadata = environment.metadata()
            assert metadata is not None
            newer = msgspec.structs.replace(metadata, format=99)
            environment.commit(newer if raw is None else Metadata(app="other", task=TASK, log="x"))
            environment.close()
            loud = reopen(bench)
            assert loud.discarded
            assert dict(bench.store.all()) == rows


def test_a_map_that_may_not_grow_is_an_error_and_the_log_stays_the_truth() -> None:
    with StoreBench(stores.key_value("counts", bytes)) as bench:
        bench.state.close()
        small = Limits(sync=False, max_map_bytes=256 << 20, commit_seconds=0)
        reopen(bench, small)
        with pytest.raises(StateError) as error:
            for number in range(60):
                for part in range(4):
                    bench.store.put(f"{number}-{part}", os.urandom(1_000_000))
                bench.commit()
        assert error.value.code == "map-limit"
        assert error.value.hint
        bench.state.drop()
        reopen(bench)
        assert len(dict(bench.store.all())) == len(bench.changelog()) > 50


def test_a_map_grows_between_transactions() -> None:
    with StoreBench(stores.key_value("counts", bytes)) as bench:
        for number in range(100):
            for part in range(4):
                bench.store.put(f"{number}-{part}", b"x" * 1_000_000)
            bench.commit()
        assert len(list(bench.store.all())) == 400
        bench.crash()
        assert len(list(bench.store.all())) == 400


def test_a_map_has_room_when_every_page_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "FIRST_MAP_BYTES", 1 << 20)  # so that little data fills it
    monkeypatch.setattr(environment, "_SPARE_BYTES", 64 << 10)
    rng = random.Random(7)
    with StoreBench(stores.key_value("counts", bytes, key=bytes)) as bench:
        for _ in range(60):
            for _ in range(2000):
                bench.store.put(rng.randbytes(16), b"x" * 20)
            bench.commit()
        assert sum(1 for _ in bench.store.all()) == 120_000


def test_a_position_without_a_store_is_an_error_and_never_zero() -> None:
    with StoreBench(COUNTS) as bench:
        bench.state.drop()
        manager = StateManager(Owner("app", TASK, bench.log.id), bench.folder / "home", bench.clock)
        manager.register(COUNTS, "app-store-changelog")
        with pytest.raises(StateError) as error:
            Restore(manager, bench.log, Position()).open()
        assert error.value.code == "no-position"


FULL = """
import resource, signal, sys
sys.path.insert(0, sys.argv[1])
from tests.state.test_bad_state import COUNTS, StateError, StoreBench, filled, reopen
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with StoreBench(COUNTS) as bench:
    filled(bench, 100)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        filled(bench, 20_000)
        print("no error")
    except StateError as error:
        print(error.code)
    bench.state.drop()
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    reopen(bench)
    print(len(dict(bench.store.all())) == len(bench.changelog()) == 20_000)
"""


@pytest.mark.slow
def test_a_full_disk_at_the_store_commit_loses_nothing() -> None:
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", FULL, str(root)], capture_output=True, text=True, check=False)
    code, same = run.stdout.split()
    assert code in ("disk-full", "state-io"), "LMDB reports a write that was cut short as any failed one"
    assert same == "True", run.stderr


CLOSED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.state.test_bad_state import COUNTS, StateError
from tests.state.store_bench import TASK
from tidegate.clock import ManualClock
from tidegate.log.positions import Position
from tidegate.log.sqlite.log import SqliteLog
from tidegate.state.changelog import changelog_spec
from tidegate.state.manager import Owner, StateManager
from tidegate.state.restore import Restore
folder = Path(sys.argv[2])
(folder / "home" / "0").mkdir(parents=True)
(folder / "home" / "0").chmod(0o000 if sys.argv[3] == "inner" else 0o700)
(folder / "home").chmod(0o500)
if os.getuid() == 0:
    folder.chmod(0o755)
    os.setgid(65534)
    os.setuid(65534)
log = SqliteLog()
log.create(changelog_spec("c", 1, {}))
manager = StateManager(Owner("app", TASK, log.id), folder / "home", ManualClock())
manager.register(COUNTS, "c")
try:
    Restore(manager, log, Position(changelogs={"counts": 0})).open()
    print("no error")
except StateError as error:
    print(error.code, bool(error.hint))
"""


@pytest.mark.slow
@pytest.mark.parametrize("which", ["inner", "outer"])
def test_a_folder_without_permission_is_reported_by_name(tmp_path: Path, which: str) -> None:
    root = Path(__file__).parents[2]
    folder = tmp_path / "state"
    folder.mkdir()
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    run = subprocess.run(
        [sys.executable, "-c", CLOSED, str(root), str(folder), which],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.split() == ["no-permission", "True"], run.stderr


def test_a_write_transaction_ends_in_the_thread_that_began_it(tmp_path: Path) -> None:
    """Ended in another, its lock would stay listed by the first thread, and be unmapped: the next unlock of
    that thread ends the process (seen as a segmentation fault in a commit)."""
    held = Environment(tmp_path / "task", ["counts"])
    held.txn.put(b"k", b"v", db=held.database("counts"))
    refused: list[StateError] = []

    def close() -> None:
        with pytest.raises(StateError, match="other-thread") as caught:
            held.close()
        refused.append(caught.value)

    thread = threading.Thread(target=close)
    thread.start()
    thread.join()
    assert refused
    assert is_open_here(tmp_path / "task")
    held.close()
    assert not is_open_here(tmp_path / "task")


def test_a_forgotten_environment_is_not_closed_by_whichever_thread_finds_it(tmp_path: Path) -> None:
    forgotten = Environment(tmp_path / "task", ["counts"])
    forgotten.txn.put(b"k", b"v", db=forgotten.database("counts"))
    seen = weakref.ref(forgotten)
    del forgotten
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()
    there = seen()
    assert there is not None
    there.close()
    del there
    gc.collect()
    assert seen() is None
