"""What state refuses, or cannot do, has a code of its own: those that no other test is about."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import lmdb
import pytest
from tests.simulator.own_store import FileStore
from tests.state.store_bench import StoreBench

from tidegate import stores
from tidegate.errors import ConfigError, StateError
from tidegate.state import environment as environment_module
from tidegate.state.environment import Environment, ReadOnlyEnvironment
from tidegate.state.lmdb_store import LmdbStore
from tidegate.state.protocol import Token
from tidegate.state.restore import Restore

COUNTS = stores.key_value("counts", int)
SESSIONS = stores.session("visits", int, retention=10)


@pytest.mark.parametrize("name", ["cleanup.policy", "retention.ms", "retention.bytes"])
def test_a_changelog_has_no_setting_that_would_lose_rows(name: str) -> None:
    with pytest.raises(ConfigError, match=name) as caught:
        COUNTS.with_changelog({name: "1"})
    assert caught.value.code == "bad-changelog-config"


def test_a_session_does_not_end_before_it_starts() -> None:
    with closing(StoreBench(SESSIONS)) as bench:
        with pytest.raises(StateError) as caught:
            bench.store.put("ada", 5, 4, 1)
        assert caught.value.code == "bad-session"
        assert list(bench.store.all()) == []


def test_rows_that_outgrow_the_map_fail_by_name_and_fit_after_it_grew(tmp_path: Path) -> None:
    """A write checks for room first; one that did not must not get LMDB's own error."""
    big = [(number.to_bytes(4, "big"), bytes(1 << 20)) for number in range(300)]
    with closing(Environment(tmp_path / "task", ["rows"], sync=False)) as environment:
        store = LmdbStore(environment, "rows", 0)
        with pytest.raises(StateError) as caught:
            store.apply(big)
        assert caught.value.code == "map-full"
        assert isinstance(caught.value.__cause__, lmdb.MapFullError)
        environment.abort()
        environment.grow(300 << 20)
        store.apply(big)
        assert store.get(big[-1][0]) == big[-1][1]


def test_a_map_grows_between_transactions_only(tmp_path: Path) -> None:
    with closing(Environment(tmp_path / "task", ["rows"], sync=False)) as environment:
        LmdbStore(environment, "rows", 0).apply([(b"k", b"v")])
        with pytest.raises(StateError) as caught:
            environment.grow(1 << 30)
        assert caught.value.code == "grow-in-transaction"


def test_a_folder_is_opened_once_in_a_process(tmp_path: Path) -> None:
    with closing(Environment(tmp_path / "task", ["rows"], sync=False)):
        with pytest.raises(StateError) as caught:
            Environment(tmp_path / "task", ["rows"])
        assert caught.value.code == "opened-twice"
        with pytest.raises(StateError, match="runs the task itself") as caught:
            ReadOnlyEnvironment(tmp_path / "task")
        assert caught.value.code == "opened-twice"
    Environment(tmp_path / "task", ["rows"]).close()


def test_the_state_of_a_task_is_opened_once() -> None:
    with closing(StoreBench(COUNTS)) as bench, pytest.raises(StateError) as caught:
        Restore(bench.state, bench.log, bench.at).open()
    assert caught.value.code == "opened-twice"


def test_metadata_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with closing(Environment(tmp_path / "task", ["rows"], sync=False)) as environment:
        meta = environment.database(environment_module._META_DB.decode())
        environment.txn.put(environment_module._META_KEY, b'{"app": 1}', db=meta)
        with pytest.raises(StateError) as caught:
            environment.metadata()
        assert caught.value.code == "bad-metadata"


class Here(NamedTuple):
    """The context of a user's store."""

    folder: Path
    partition: int = 0
    suffix: int = 0

    def log_change(self, key: bytes, value: bytes | None) -> None:
        raise AssertionError(f"a store that keeps its own file logged a change: {key!r} -> {value!r}")


def test_the_store_of_the_simulator_refuses_an_older_token(tmp_path: Path) -> None:
    """Of the same epoch and offset too, if it is of an older attempt: that is a zombie's."""
    store = FileStore()
    store.open(Here(tmp_path))
    store.apply([(b"k", b"new")], Token(3, 1, 7))
    for older in (Token(2, 9, 9), Token(3, 0, 7), Token(3, 1, 6)):
        with pytest.raises(StateError) as caught:
            store.apply([(b"k", b"old")], older)
        assert caught.value.code == "stale-token"
    assert store.get(b"k") == b"new"
