"""What does not look like a folder of ours is not seen, and so never removed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.state.left_folders import APP, TIGHT, clean, make, tree, write

from tidegate.log.positions import TaskId


def test_no_symlink_is_followed(folder: Path) -> None:
    state_dir, outside = folder / "state", folder / "outside"
    path = make(outside, TaskId("totals", 1, 0, 0), log="another", last=0)
    component, mine = state_dir / APP / "totals.g1", state_dir / APP / "totals.g1" / "0_2"
    before = tree(outside)
    for link, target in (
        (state_dir / APP, outside / APP),
        (component, path.parent.parent),
        (component / "0_0", path.parent),
        (mine / "0", path),
    ):
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
        cleanup = clean(state_dir, TIGHT)
        assert (cleanup.removed, cleanup.problems, tree(outside)) == ({}, [], before)
        link.unlink()
    write(mine / "0", TaskId("totals", 1, 0, 2))
    for name in ("0/data.mdb", "0/checkpoint", "0/store-mine", "0.lock"):
        (mine / name).unlink(missing_ok=True)
        (mine / name).symlink_to(path / "data.mdb")
        cleanup = clean(state_dir, TIGHT)
        assert (cleanup.removed, cleanup.problems, tree(outside)) == ({}, [], before)
        (mine / name).unlink()
    assert list(clean(state_dir, TIGHT).removed) == [mine / "0"]


def test_what_is_linked_from_a_users_store_stays(folder: Path) -> None:
    outside = folder / "outside"
    outside.mkdir()
    (outside / "photo").touch()
    path = make(folder, TaskId("totals", 1, 0, 0))
    (path / "store-mine").mkdir()
    (path / "store-mine" / "link").symlink_to(outside)
    assert list(clean(folder).removed) == [path]
    assert (outside / "photo").exists()


@pytest.mark.parametrize(
    "name",
    ["notes", "totals.g1", "totals.g1/notes", "totals.g1/0_0/0/notes", "totals.g01/0_0/0", "totals.g1/0_0/00"]
    + [
        "totals.g1/00_0/0",
        "totals.g1/0_0/notes",
        "totals/0_0/0",
        "totals.g1/0_0_0/0",
        "totals.g1/0_0/\u00b2",
    ],
)
def test_folders_that_tidegate_did_not_make_are_left_alone(folder: Path, name: str) -> None:
    path = folder / APP / name
    path.mkdir(parents=True)
    (path / "data.mdb").write_text("dear diary")
    cleanup = clean(folder, TIGHT)
    assert (cleanup.removed, cleanup.problems) == ({}, [])
    assert (path / "data.mdb").read_text() == "dear diary"


def test_an_unknown_file_beside_our_own_keeps_the_folder(folder: Path) -> None:
    path = make(folder, TaskId("totals", 1, 0, 0))
    (path / "letter").touch()
    (path.parent / "another").touch()
    assert clean(folder, TIGHT).removed == {}
    (path / "letter").unlink()
    assert list(clean(folder, TIGHT).removed) == [path]
    assert (path.parent / "another").exists()
