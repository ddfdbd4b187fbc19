"""Four writers and four readers on one file, killed at random moments and started again.

A transaction puts records into several partitions of several topics; who acknowledged what is in the
writers' journals, who saw what in the readers' lines, and what is there at the end in the log. The checks
compare the three: I1, I2, I3, I5 and I8, order per writer, and the offsets that flush returned.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.log.anatomy import check_batches, check_tiles, stored
from tests.log.history import forking
from tests.log.reader_process import checksum, follow, transaction_of
from tests.log.workload import EVERYWHERE, FENCED, TOPICS, WRITERS, plan_of, row_of, sort_key
from tests.log.writer_process import write
from tests.repetitions import repeated
from tests.waiting import HANG_SECONDS, wait_for

from tidegate.log.reads import read_to_end
from tidegate.log.records import ReadRow, rows_of
from tidegate.log.sqlite.log import SqliteLog
from tidegate.types import Offset, TopicPartition

SECONDS = float(os.environ.get("TIDEGATE_LOG_MINUTE") or repeated(4, soak=60))
LEAST = {"kills": 10, "restarts": 1, "zombies": 2, "late commits": 1}
"""Takes as long as it takes: the processes of a busy machine get less done in the same time."""
READERS = ["r0", "r1", "r2", "r3"]
SECONDS_PER_ZOMBIE = 3

Contents = dict[TopicPartition, list[ReadRow]]


def run_child(errors: Path, life: Callable[..., int], *given: Any) -> None:
    """In the process: what goes wrong there is read from the file."""
    with errors.open("wb") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    sys.exit(life(*given))


class Child:
    """A process that we started. It dies with us: its pipe ends."""

    def __init__(self, folder: Path, name: str, run: int) -> None:
        self.name, self.run = name, run
        self.journal = folder / f"{name}.{run}.journal"
        self._errors = folder / f"{name}.{run}.errors"
        given: tuple[Any, ...] = (folder / "log.db", name, run, self.journal)
        life: Callable[..., int] = write
        if name in READERS:
            life, given = follow, (folder / "log.db", folder / f"{name}.lines", self.journal)
        context = forking()
        theirs, self._orders = context.Pipe(duplex=False)
        self.process = context.Process(target=run_child, args=(self._errors, life, theirs, *given))
        self.process.start()
        theirs.close()

    @property
    def runs(self) -> bool:
        return self.process.exitcode is None

    def signal(self, number: int) -> None:
        """Only to a process that still runs: its id cannot belong to another."""
        if self.runs:
            assert self.process.pid is not None
            os.kill(self.process.pid, number)

    def stop(self) -> None:
        """Ask it to come to an end."""
        with suppress(BrokenPipeError):
            self._orders.send("stop")

    def end(self, *expected: int) -> None:
        """Wait for it, and see that it ended as expected."""
        self.process.join(HANG_SECONDS)
        code = self.process.exitcode
        self.hang_up()
        assert code in expected, f"{self.name}.{self.run} left with {code}:\n{self._errors.read_text()}"

    def hang_up(self) -> None:
        self._orders.close()

    def words(self) -> list[list[str]]:
        """The lines of its journal."""
        text = self.journal.read_text() if self.journal.exists() else ""
        return [line.split() for line in text.splitlines()]

    def lines(self, word: str) -> int:
        """How often it journaled this word."""
        return sum(line[0] == word for line in self.words())

    def await_word(self, word: str, seconds: float) -> None:
        """Until the journal has the word, the process is gone, or time is up."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.runs and not self.lines(word):
            time.sleep(0.01)


@dataclass
class Crowd:
    """All processes, and what is done to them."""

    folder: Path
    dice: random.Random
    live: dict[str, Child] = field(default_factory=dict)
    leaving: list[tuple[Child, list[int]]] = field(default_factory=list)
    ended: list[Child] = field(default_factory=list)
    runs: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)

    def start(self, name: str) -> Child:
        self.runs[name] += 1
        self.live[name] = Child(self.folder, name, self.runs[name])
        return self.live[name]

    def step(self) -> None:
        """Wait a little, then do something to one process, mostly to one that got as far as to do something
        itself. The first is a restart: on a busy machine few get that far. A second holder of an id comes at
        least every few seconds."""
        time.sleep(self.dice.uniform(0.05, 0.3))
        name = self.dice.choice([*WRITERS, *WRITERS, *READERS])
        holders = [one for one in WRITERS if self.live[one].lines("ack") > self.dice.randrange(20)]
        roll = self.dice.random()
        if holders and self.counts["zombies"] < (time.monotonic() - self.began) / SECONDS_PER_ZOMBIE:
            self.replace(self.dice.choice(holders), asleep=roll < 0.6, late=not self.counts["late commits"])
        elif roll < 0.05 and self.counts["restarts"]:
            self.kill(name)
        elif name not in holders and not (name in READERS and self.live[name].lines("open")):
            pass
        elif roll < 0.1 or not self.counts["restarts"]:
            self.restart(name)
        elif roll < 0.15:
            self.kill(*self.live)
        else:
            self.kill(name)
        self.bury([one for one in self.leaving if not one[0].runs])

    def kill(self, *names: str) -> None:
        """SIGKILL, then start again: a writer with the same id, a reader from its last line."""
        gone = [self.live.pop(name) for name in names]
        for child in gone:
            child.signal(signal.SIGKILL)
        for child in gone:
            self.bury([(child, [-signal.SIGKILL])])
            self.start(child.name)
        self.counts["kills"] += len(gone)

    def restart(self, name: str) -> None:
        """One process comes to its end while the next one starts."""
        old = self.live[name]
        old.stop()
        self.leaving.append((old, [0, FENCED] if name in WRITERS else [0]))
        if name in READERS:
            self.bury([self.leaving[-1]])
        self.start(name)
        self.counts["restarts"] += 1

    def replace(self, name: str, *, asleep: bool, late: bool) -> None:
        """Start a second holder of a live id. The first one works on, or is suspended: anywhere until the
        second has committed; or, if `late`, right before its commit until the second holds the id."""
        old = self.live[name]
        self.leaving.append((old, [FENCED]))
        if late:
            old.signal(signal.SIGUSR1)
            old.await_word("asleep", HANG_SECONDS)
        elif asleep:
            old.signal(signal.SIGSTOP)
        new = self.start(name)
        if late:
            new.await_word("open", HANG_SECONDS)
        elif asleep:
            # The sleeper may hold the lock of the file: then nobody gets on before it wakes up.
            new.await_word("ack", 2.0)
        if late or asleep:
            old.signal(signal.SIGCONT)
        self.counts["late commits"] += late
        self.counts["zombies"] += 1

    def bury(self, leaving: list[tuple[Child, list[int]]]) -> None:
        """Wait for processes that must end, as expected."""
        for child, codes in leaving:
            child.end(*codes)
            self.ended.append(child)
        self.leaving = [one for one in self.leaving if one not in leaving]

    def finish(self) -> None:
        """Let everybody come to an end: writers first, so that the readers can read all."""
        for names in (WRITERS, READERS):
            for name in names:
                self.live[name].stop()
            self.bury([*self.leaving, *((self.live.pop(name), [0]) for name in names)])

    def kill_all(self) -> None:
        """Nobody is left, whatever happened."""
        for child in [*self.live.values(), *(child for child, _ in self.leaving)]:
            child.signal(signal.SIGKILL)
            child.process.join()
            child.hang_up()

    def journaled(self, word: str) -> Iterator[str]:
        """The transactions of which a writer journaled this word."""
        for child in self.ended:
            for line in child.words():
                if line[0] == word:
                    yield f"{child.name}.{child.run}.{line[1]}"


def read_all(log: SqliteLog) -> Contents:
    found: Contents = {partition: [] for partition in EVERYWHERE}
    for fetched in read_to_end(log, dict.fromkeys(EVERYWHERE, Offset(0))):
        found[fetched.partition] += rows_of(fetched.batch)
    return found


def check_transactions(contents: Contents, crowd: Crowd) -> None:
    """I1, I2, I3, I8: each transaction is in all its partitions, once, byte for byte, or in none."""
    indices: dict[str, dict[TopicPartition, int]] = defaultdict(lambda: defaultdict(int))
    for partition, rows in contents.items():
        if partition.topic == "table":
            continue
        for row in rows:
            name = transaction_of(row)
            index = indices[name][partition]
            claim = row.offset if partition.topic == "changelog" else None
            expected = row_of(plan_of(name), partition, index, claim, row.timestamp)
            assert (row.key, row.value) == (expected.key, expected.value), f"{partition} {row.offset}: {name}"
            indices[name][partition] += 1
    for name, found in indices.items():
        assert not plan_of(name).aborts, f"{name} was aborted and shows"
        assert found == plan_of(name).counts, f"{name} shows in part"
    acknowledged = set(crowd.journaled("ack"))
    assert acknowledged <= indices.keys(), f"lost: {sorted(acknowledged - indices.keys())[:5]}"
    assert set(crowd.journaled("asleep")) <= set(crowd.journaled("fenced")), "committed after it was fenced"
    for name in crowd.journaled("fenced"):
        writer, run, number = name.split(".")
        late = [f"{writer}.{run}.{later}" for later in range(int(number), int(number) + 4)]
        assert not indices.keys() & set(late), f"{name} was fenced and shows"
    crowd.counts["transactions"] = len(indices)
    crowd.counts["acknowledged"] = len(acknowledged)
    crowd.counts["spilled"] = sum(plan_of(name).is_big for name in indices)
    crowd.counts["records"] = sum(len(rows) for rows in contents.values())


def check_order(contents: Contents) -> None:
    """I5 and order: offsets rise, without holes in event topics; each writer's transactions stay in order,
    which also says that no older holder of an id wrote after a newer one."""
    for partition, rows in contents.items():
        if partition.topic == "table":
            assert all(left.offset < right.offset for left, right in pairwise(rows))
        else:
            assert [row.offset for row in rows] == list(range(len(rows)))
        by_writer: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for row in rows:
            name = transaction_of(row)
            by_writer[name.split(".")[0]].append(sort_key(name))
        assert all(keys == sorted(keys) for keys in by_writer.values()), f"{partition} is out of order"


def check_table(contents: Contents) -> None:
    """The newest record of each key is that of the last transaction which wrote it."""
    shown = {transaction_of(row) for one, rows in contents.items() if one.topic == "orders" for row in rows}
    shown |= {transaction_of(row) for one, rows in contents.items() if one.topic == "audit" for row in rows}
    expected: dict[tuple[TopicPartition, bytes | None], tuple[str, bytes | None]] = {}
    for name in sorted(shown, key=sort_key):
        for target, key, value in plan_of(name).rows:
            expected[target, key] = (name, value)
    found = {
        (partition, row.key): (transaction_of(row), row.value)
        for partition, rows in contents.items()
        if partition.topic == "table"
        for row in rows
    }
    assert found == expected


def check_reader(lines: list[str], contents: Contents, seen: dict[tuple[str, str, int], str]) -> int:
    """I2, I3, I5: one reader saw each record once, in order, the same bytes as all others, to the end; and
    whenever it had all that there was, no transaction in part. How many such moments there were."""
    stands = dict.fromkeys(EVERYWHERE, -1)
    parts: dict[str, int] = defaultdict(int)
    moments = 0
    for line in lines:
        if line == "=":
            assert not parts, f"seen in part: {dict(parts)}"
            moments += 1
            continue
        topic, number, offset_text, what = line.split(" ", 3)
        partition, offset = TopicPartition(topic, int(number)), int(offset_text)
        assert seen.setdefault((topic, number, offset), what) == what, f"{partition} {offset} changed"
        assert offset == stands[partition] + 1 or (topic == "table" and offset > stands[partition])
        stands[partition] = offset
        if topic != "table":
            name = what.split()[1]
            left = parts.pop(name, sum(plan_of(name).counts.values())) - 1
            if left:
                parts[name] = left
    assert stands == {partition: rows[-1].offset if rows else -1 for partition, rows in contents.items()}
    return moments


@pytest.mark.slow
@pytest.mark.soak
def test_nothing_is_lost_repeated_or_torn_when_processes_are_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = random.randrange(2**32)
    with closing(SqliteLog(tmp_path / "log.db", upkeep=False)) as log:
        for spec in TOPICS:
            log.create(spec)
    crowd = Crowd(tmp_path, random.Random(seed))
    try:
        for name in [*WRITERS, *READERS]:
            crowd.start(name)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline or any(crowd.counts[what] < least for what, least in LEAST.items()):
            assert time.monotonic() < deadline + HANG_SECONDS, crowd.counts
            crowd.step()
        await_compaction(tmp_path)
        crowd.finish()
    finally:
        crowd.kill_all()

    with closing(SqliteLog(tmp_path / "log.db", upkeep=False)) as log:
        contents = read_all(log)
        check_transactions(contents, crowd)
        check_order(contents)
        check_table(contents)
        seen: dict[tuple[str, str, int], str] = {
            (partition.topic, str(partition.partition), row.offset): f"{checksum(row)} {transaction_of(row)}"
            for partition, rows in contents.items()
            for row in rows
        }
        for name in READERS:
            lines = (tmp_path / f"{name}.lines").read_text().splitlines()
            crowd.counts["moments"] += check_reader(lines, contents, seen)
        check_end(log, contents)
    with capsys.disabled():
        sys.stdout.write(f"\n{SECONDS:.0f} s, seed {seed}: {dict(crowd.counts)}\n")


def await_compaction(folder: Path) -> None:
    """The processes do the upkeep: left in peace, one of them compacts the table, if none did before."""
    with closing(SqliteLog(folder / "log.db", upkeep=False)) as log:
        wait_for(
            lambda: any(one.row.clean for partition, one in stored(log).items() if partition.topic == "table")
        )


def check_end(log: SqliteLog, contents: Contents) -> None:
    """Upkeep changes nothing that counts, and leaves nothing behind."""
    for writer_id in WRITERS:
        log.writer(writer_id).close()
    log.upkeep()
    log.compact("table")
    for partition, one in stored(log).items():
        check_tiles(partition, one)
    assert check_batches(log) == 0
    after = read_all(log)
    check_table(after)
    assert all(after[one] == rows for one, rows in contents.items() if one.topic != "table")
