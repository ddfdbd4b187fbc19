"""Reading folders that may be damaged: all damage is found, and no page ends the process that asks."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import pytest
from tests.state.damage import damage_metadata, damage_row, damage_so_that_readers_die, data_of, page_of
from tests.state.store_bench import StoreBench
from tests.state.test_bad_state import COUNTS, data_file, filled

from tidegate import stores
from tidegate.errors import StateError
from tidegate.state.environment import mark_damaged
from tidegate.state.formats import window_suffix
from tidegate.state.inspect import opened, rows_of
from tidegate.state.keys import stored_key
from tidegate.state.verify import Verified, verify, verify_all

WINDOWS = stores.window("windows", int, size=10, retention=20)


def test_a_sound_folder_has_no_damage() -> None:
    with StoreBench(COUNTS) as bench:
        filled(bench)
        bench.state.drop()
        found = verify(data_file(bench).parent)
        assert (found.problem, found.damaged) == ("", {})
        assert found.metadata is not None


def test_every_damaged_row_is_counted() -> None:
    with StoreBench(COUNTS) as bench:
        filled(bench)
        bench.state.drop()
        folder = data_file(bench).parent
        for number in (3, 500, 1999):
            damage_row(folder, "counts", f"key-{number}".encode())
        assert verify(folder).damaged == {"counts": "3 of 2,000 rows do not match their checksum"}


def test_a_folder_that_ends_the_process_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    folders = []
    for number, harm in enumerate(
        [None, damage_so_that_readers_die, damage_row, None, damage_so_that_readers_die, damage_metadata]
    ):
        with StoreBench(COUNTS) as bench:
            filled(bench)
            bench.state.drop()
            folder = Path(shutil.copytree(data_file(bench).parent, tmp_path / str(number)))
        if harm is damage_metadata:
            damage_metadata(folder)
        elif harm is damage_row:
            damage_row(folder, "counts", b"key-7")
        elif harm is not None:
            damage_so_that_readers_die(folder, b"key-7")
        folders.append(folder)
    found = verify_all(folders)
    assert [Path(one.folder) for one in found] == folders
    assert [one.problem.partition(" (")[0] for one in found] == [
        "",
        "it cannot be read: that crashes the process",
        "",
        "",
        "it cannot be read: that crashes the process",
        "the state's metadata cannot be read: it does not match its checksum",
    ]
    assert found[2].damaged == {"counts": "1 of 2,000 rows do not match their checksum"}


def test_random_damage_never_passes_for_another_value(tmp_path: Path) -> None:
    """What is found sound is what was written."""
    seeds = random.Random(11)
    with StoreBench(COUNTS) as bench:
        rows = filled(bench, 3000)
        bench.state.drop()
        whole = data_of(data_file(bench).parent)
    folders = []
    for number in range(40):
        content = bytearray(whole)
        for _ in range(seeds.choice([1, 1, 3])):
            content[seeds.randrange(8192, len(content))] ^= 1 << seeds.randrange(8)
        folders.append(tmp_path / str(number))
        folders[-1].mkdir()
        (folders[-1] / "data.mdb").write_bytes(content)
    found = verify_all(folders)
    sound = [Path(one.folder) for one in found if not (one.problem or one.damaged)]
    assert len(sound) < 40
    for folder in sound:
        assert rows_in(folder) == rows


def rows_in(folder: Path) -> dict[str, int]:
    with opened(folder) as environment:
        metadata = environment.metadata()
        assert metadata is not None
        found = rows_of(environment, metadata, "counts").scan(None, None)
        return {COUNTS.key.decode(key): COUNTS.value.decode(value) for key, value in found}


@pytest.mark.parametrize("harm", ["another row", "no row"])
def test_an_index_by_end_time_that_does_not_fit_is_damage(harm: str) -> None:
    with StoreBench(WINDOWS) as bench:
        for key in ("ada", "bob"):
            bench.store.put(key, 0, 1)
        bench.persist()
        bench.state.drop()
        [path] = bench.folder.glob("home/*/data.mdb")
        place = stored_key(b"ada", window_suffix(0))
        entry = place + b"ada" + window_suffix(0)
        content = data_of(path.parent)
        assert page_of(content, entry)
        other = b"adb" if harm == "no row" else b"bob"
        path.write_bytes(content.replace(entry, place + other + window_suffix(0)))
        assert verify(path.parent).damaged == {"windows": "its index by end time does not match its rows"}


def test_an_index_with_another_end_time_is_damage() -> None:
    """Such a row would expire at that time: too early, or never."""
    with StoreBench(WINDOWS) as bench:
        bench.store.put("ada", 0, 1)
        bench.persist()
        bench.state.drop()
        [path] = bench.folder.glob("home/*/data.mdb")
        place = stored_key(b"ada", window_suffix(0))
        content = data_of(path.parent)
        entry = WINDOWS.window_size.to_bytes(8, "big") + place
        assert content.count(entry)
        path.write_bytes(content.replace(entry, (WINDOWS.window_size + 1).to_bytes(8, "big") + place))
        assert verify(path.parent).damaged == {"windows": "its index by end time does not match its rows"}


def test_a_marked_folder_is_damaged(tmp_path: Path) -> None:
    with StoreBench(COUNTS) as bench:
        filled(bench, 10)
        bench.state.drop()
        folder = Path(shutil.copytree(data_file(bench).parent, tmp_path / "0"))
    mark_damaged(folder)
    assert verify(folder).problem == "a damaged row was found in it"


def test_a_process_that_does_not_start_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a repair would discard sound state."""
    # The check runs in a process of its own, because damage may kill it.
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(StateError) as error:
        verify_all([tmp_path])
    assert error.value.code == "verify-failed"


def test_a_folder_without_a_file_is_a_problem_of_its_own(tmp_path: Path) -> None:
    assert isinstance(verify(tmp_path), Verified)
    assert verify(tmp_path).problem
