"""Slots that are threads of one process look at each other's folders."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tidegate.errors import StateError
from tidegate.state import open_here
from tidegate.state.environment import Environment, ReadOnlyEnvironment, copy_environment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Environment(tmp_path / "task", ["rows"], sync=False).close()
    return tmp_path / "task"


def opened(folder: Path) -> None:
    Environment(folder, ["rows"], sync=False).close()


def read(folder: Path) -> None:
    ReadOnlyEnvironment(folder).close()


def copied(folder: Path) -> None:
    assert copy_environment(folder, folder.with_name("copy"))


@pytest.mark.parametrize("use", [opened, read, copied])
def test_who_needs_a_folder_that_is_read_waits_for_the_reader(
    folder: Path, use: Callable[[Path], None]
) -> None:
    with ThreadPoolExecutor(1) as threads:
        with closing(ReadOnlyEnvironment(folder)):
            waits = threads.submit(use, folder)
            time.sleep(0.2)
            assert not waits.done()
        waits.result(timeout=60)


def test_a_reader_that_does_not_end_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_here, "READ_SECONDS", 0.05)
    with closing(ReadOnlyEnvironment(folder)):
        with pytest.raises(StateError, match=r"reading the folder .* for 0\.05 s") as caught:
            opened(folder)
        assert caught.value.code == "opened-twice"
        assert not copy_environment(folder, folder.with_name("copy"))
    opened(folder)


def test_a_folder_that_cannot_be_opened_is_held_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "task").write_text("a file")
    with pytest.raises(StateError):
        opened(tmp_path / "task")
    with pytest.raises(StateError):
        read(tmp_path / "task")
    (tmp_path / "task").unlink()
    opened(tmp_path / "task")


def test_threads_that_open_and_read_one_folder_never_fail(folder: Path) -> None:
    """A slot lands, and lists the folders of its host, while another opens one of them."""
    ended = threading.Event()

    def look() -> set[str]:
        refused = set()
        while not ended.is_set():
            try:
                read(folder)
            except StateError as error:
                refused.add(error.code)
        return refused

    with ThreadPoolExecutor(2) as threads:
        readers = [threads.submit(look) for _ in range(2)]
        try:
            for _ in range(100):
                opened(folder)
        finally:
            ended.set()
        for reader in readers:
            assert reader.result(timeout=60) <= {"opened-twice"}, "refused only while a task has it"
