"""Folders whose metadata has no checksum yet go on; no flipped bit makes sealed metadata pass for such."""

from __future__ import annotations

import json
from pathlib import Path

import lmdb
from tests.state.bench import AT_EVERY_COMMIT, SELDOM, Bench
from tests.state.store_bench import StoreBench
from tests.state.test_bad_state import COUNTS, data_file, filled, reopen

from tidegate.state.environment import ReadOnlyEnvironment
from tidegate.state.unsealed import is_unsealed

PLAIN = COUNTS.without_changelog(on_gap="keep")


def metadata_in(folder: Path) -> bytes:
    with lmdb.open(str(folder), max_dbs=9) as env, env.begin() as txn:
        return txn.get(b"metadata", db=env.open_db(b":meta", txn=txn)) or b""


def as_before_seals(folder: Path) -> bytes:
    """Write the metadata in its first form, without checksum and without what stores got to know later."""
    found = json.loads(metadata_in(folder)[:-4])
    for facts in found["stores"].values():
        del facts["window"], facts["in_memory"]
    raw = json.dumps(found, separators=(",", ":")).encode()
    with lmdb.open(str(folder), max_dbs=9) as env, env.begin(write=True) as txn:
        txn.put(b"metadata", raw, db=env.open_db(b":meta", txn=txn))
    return raw


def test_a_folder_without_seal_goes_on_and_is_sealed_at_the_next_commit() -> None:
    with StoreBench(COUNTS) as bench:
        rows = filled(bench, 20)
        bench.state.drop()
        folder = data_file(bench).parent
        raw = as_before_seals(folder)
        look = ReadOnlyEnvironment(folder)
        assert look.metadata() is not None
        look.close()
        loud = reopen(bench)
        assert (loud.discarded, loud.restored) == ([], 0)
        assert dict(bench.store.all()) == rows
        bench.state.persist_now()
        bench.state.drop()
        assert is_unsealed(raw)
        assert not is_unsealed(metadata_in(folder))


def test_no_flipped_bit_makes_sealed_metadata_look_unsealed() -> None:
    with StoreBench(COUNTS) as bench:
        filled(bench, 20)
        bench.state.drop()
        sealed = metadata_in(data_file(bench).parent)
    for seal in (sealed[-4:], b"    ", b"\n\t\r ", b"}}}}", b'"}}}', b'"}} ', b'"}}\n'):
        for bit in range(8 * len(sealed)):
            flipped = bytearray(sealed[:-4] + seal)
            flipped[bit // 8] ^= 1 << bit % 8
            assert not is_unsealed(bytes(flipped)), flipped


def test_rows_without_changelog_survive_metadata_without_seal(bench: Bench) -> None:
    task = bench.start(PLAIN, limits=AT_EVERY_COMMIT)
    task.put(PLAIN, "ada", 1)
    task.commit()
    folder = task.state.folder
    task.drop()
    as_before_seals(folder)
    again = bench.start(PLAIN)
    assert (again.listener.gaps(), again.rows(PLAIN)) == ({}, {"ada": 1})


def test_rows_that_were_thrown_away_are_not_reported_as_kept(bench: Bench) -> None:
    task = bench.start(PLAIN, limits=SELDOM)
    task.put(PLAIN, "ada", 1)
    task.commit()
    task.state.persist_now()
    folder = task.state.folder
    task.drop()
    with lmdb.open(str(folder), max_dbs=9) as env, env.begin(write=True) as txn:
        txn.put(b"metadata", b"garbled", db=env.open_db(b":meta", txn=txn))
    again = bench.start(PLAIN)
    assert again.rows(PLAIN) == {}
    assert (again.listener.gaps(), again.state.gaps) == ({"counts": "emptied"}, 0)
