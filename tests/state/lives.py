"""What the child processes of these tests do. Each reports through its pipe how far it is."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection
from pathlib import Path

from tests.state.bench import AT_EVERY_COMMIT, AT_EVERY_TURN, SELDOM, Task
from tests.state.faults import at
from tests.state.ground import Ground

from tidegate import stores
from tidegate.errors import FencedError
from tidegate.log.faultpoints import installed
from tidegate.state.cleanup import Cleanup, NeededState
from tidegate.state.folders import claim, remove_older

COUNTS = stores.key_value("counts", int)


def wait(pipe: Connection, where: str) -> None:
    """Report what this process reached, and wait until the parent lets it go on."""
    pipe.send(where)
    pipe.recv()


def write(task: Task, first: int, last: int) -> None:
    """Commit some records, ten at a time."""
    for number in range(first, last):
        task.put(COUNTS, f"key-{number % 30}", number)
        if number % 10 == 9:
            task.commit()


def a_hundred_records(pipe: Connection, ground: Ground) -> None:
    """A hundred records in the log and in the store; then killed."""
    write(ground.bench().start(COUNTS, limits=AT_EVERY_COMMIT), 0, 100)
    wait(pipe, "all persisted")


def ten_of_a_hundred_records(pipe: Connection, ground: Ground) -> None:
    """A hundred records in the log, and ten of them in the store; then killed in front of commit step 7."""
    task = ground.bench().start(COUNTS, limits=SELDOM)
    write(task, 0, 10)
    task.state.persist_now()
    write(task, 10, 90)
    with installed(at("commit.7", lambda: wait(pipe, "before the store commit"))):
        write(task, 90, 100)


def zombie(pipe: Connection, ground: Ground, step: str) -> None:
    """Ten records persisted; then asleep inside the next commit, which the log has taken; then fenced."""
    task = ground.bench().start(COUNTS, limits=SELDOM)
    write(task, 0, 10)
    task.state.persist_now()
    with installed(at(step, lambda: wait(pipe, "asleep"))):
        write(task, 10, 20)
    task.state.persist_now()
    try:
        write(task, 20, 30)
    except FencedError:
        pipe.send("fenced")


def holder(pipe: Connection, ground: Ground) -> None:
    """Ten records persisted, ten more in an open write transaction; stopped there, later continued."""
    task = ground.bench().start(COUNTS, limits=SELDOM)
    write(task, 0, 10)
    task.state.persist_now()
    write(task, 10, 20)
    wait(pipe, "in a write transaction")
    try:
        write(task, 20, 30)
    except FencedError:
        task.drop()
        pipe.send("fenced")


def newcomer(pipe: Connection, ground: Ground) -> None:
    """Restore beside a holder; reports what the copy held, then how the restore went."""
    bench = ground.bench()
    task = bench.open(COUNTS)
    copied = {
        COUNTS.key.decode(key): COUNTS.value.decode(value)
        for key, value in task.state.inner("counts").scan(None, None)
    }
    pipe.send((task.state.folder.name, copied))
    task.restore.run()
    pipe.send((bench.span(task, COUNTS), task.listener.restored("counts"), task.rows(COUNTS)))
    write(task, 20, 30)
    wait(pipe, "at work")
    task.close()
    pipe.send("closed")


def restore_a_little(pipe: Connection, ground: Ground) -> None:
    """Restore page by page, each of them saved, and wait in the third one to be killed."""
    bench = ground.bench()
    with ground.small_pages():
        task = bench.open(COUNTS, limits=AT_EVERY_TURN)
        pipe.send(task.listener.span("counts"))
        with installed(at("restore.4", lambda: wait(pipe, "in the third page"), number=3)):
            task.restore.run()
    pipe.send("restored")


def claim_and_wait(pipe: Connection, home: Path) -> None:
    folder = claim(home)
    wait(pipe, folder.path.name)


def claim_again_and_again(pipe: Connection, home: Path, least: int, seconds: float) -> None:
    """Take a folder, find no other process in it, and clean up behind; so often at least, and for so long."""
    turns, deadline = 0, time.monotonic() + seconds
    while turns < least or time.monotonic() < deadline:
        folder = claim(home)
        mark = folder.path / "somebody is here"
        mark.touch(exist_ok=False)
        remove_older(folder)
        mark.unlink()
        folder.release()
        turns += 1
    pipe.send(turns)


def clean_up_as_nobody(pipe: Connection, state_dir: Path, needs: NeededState) -> None:
    """Clean up with no more rights than any user; root may write where nobody else may."""
    if os.geteuid() == 0:
        os.setuid(65534)
    cleanup = Cleanup(state_dir, needs)
    cleanup.run()
    pipe.send((sorted(cleanup.removed), [(problem.code, problem.message) for problem in cleanup.problems]))
    pipe.recv()
