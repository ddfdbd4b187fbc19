"""Replicas: what is left of a snapshot once it is closed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tidegate.state.replica import READERS, Replica


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[Replica]:
    with closing(Replica(tmp_path / "replica", 2, starts=[0, 0])) as opened:
        opened.apply({0: ([(b"ada", b"1")], 1)})
        yield opened


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
def test_a_closed_snapshot_frees_its_place_among_the_readers_at_once(replica: Replica) -> None:
    kept = []
    for _ in range(READERS + 1):
        with replica.snapshot() as snapshot:
            assert snapshot.get(0, b"ada") == b"1"
            assert dict(snapshot.scan(1, None, None)) == {}
        kept.append(snapshot)


@pytest.mark.usefixtures("no_garbage_collection")
def test_a_scan_that_is_not_read_to_its_end_frees_its_place_too(replica: Replica) -> None:
    for _ in range(READERS + 1):
        with replica.snapshot() as snapshot:
            next(snapshot.scan(0, None, None))
