"""Whatever happens to a sink, the database is the fold of the log, and never ahead of it."""

from __future__ import annotations

import itertools
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.postgres import Postgres
from tests.sinks.app import TOTALS, Total, shop
from tests.sinks.conftest import MakeCopies
from tests.sinks.copies import Copies, change
from tests.waiting import wait_for

from tidegate.errors import StateError, TidegateError
from tidegate.log import faultpoints
from tidegate.sinks.running import run_sink
from tidegate.sinks.sink import Sink
from tidegate.sinks.threads import SinkThread
from tidegate.testing import Driver
from tidegate.testing.faults import Crash, Faults
from tidegate.types import TopicPartition

STEPS = [f"sink.{step}" for step in range(1, 8)]
HOUR = 3_600_000


@pytest.fixture
def d() -> Iterator[Driver]:
    with Driver(shop(), partitions=2) as made:
        yield made


def crash(copies: Copies, step: str, arrival: int, **settings: Any) -> bool:
    """Run a sink that crashes; False if it is done before that."""
    faults = Faults()
    faults.crash(step, arrival, elsewhere=False)
    try:
        with faultpoints.installed(faults._arrive):
            copies.catch_up(**settings)
    except Crash:
        return True
    return False


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_loses_nothing_and_applies_nothing_twice(
    d: Driver, copies_of: MakeCopies, step: str
) -> None:
    """Small batches, so that each step is reached several times; and changes between the crashes."""
    copies = copies_of(d)
    for arrival in (1, 2, 4):
        change(d, arrival, count=24)
        assert crash(copies, step, arrival, batch=3) or step == "sink.1"  # one poll has it all
    change(d, 6, count=12)
    copies.catch_up(batch=3)
    copies.check()
    assert copies.catch_up().counts.records == 0


def test_the_database_is_never_ahead_of_the_log_and_rows_belong_to_the_position(
    d: Driver, copies_of: MakeCopies
) -> None:
    """At every commit: the rows are the fold of the topic up to the position beside them."""
    copies = copies_of(d)
    change(d, 1, count=60)
    checked = 0

    def look(step: str) -> None:
        nonlocal checked
        if step != "sink.7":
            return
        copies.check_positions()
        checked += 1

    with faultpoints.installed(look):
        copies.catch_up(batch=5)
    assert checked > 5


def test_two_sinks_at_once_apply_each_record_once(d: Driver, copies_of: MakeCopies) -> None:
    copies = copies_of(d)
    change(d, 1, count=150)
    sinks = [copies.sink(batch=7) for _ in range(2)]
    copies.catch_up(copies.sink(models=["workflows"], batch=1_000_000, tables=["counts"]))
    failed: list[BaseException] = []

    def work(sink: Sink) -> None:
        try:
            copies.catch_up(sink)
        except BaseException as error:  # noqa: BLE001 - shown below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(sink,)) for sink in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    copies.check()
    assert sum(sink.counts.records for sink in sinks) == 150


def test_the_slower_of_two_sinks_rolls_back_and_continues_behind_the_faster(
    d: Driver, copies_of: MakeCopies
) -> None:
    copies = copies_of(d)
    change(d, 1, count=20)
    slow, fast = copies.sink(batch=5), copies.sink(batch=5)
    fast.follow(threading.Event(), until_caught_up=True)
    change(d, 2, count=20)

    def overtake(step: str) -> None:
        if step == "sink.2" and not fast.counts.lost and slow.counts.records == 0:
            fast.counts.lost = 1
            worker = threading.Thread(target=copies.catch_up, args=(fast,))
            worker.start()
            worker.join()

    with faultpoints.installed(overtake):
        slow.follow(threading.Event(), until_caught_up=True)
    assert (slow.counts.lost, slow.counts.records) == (1, 0)
    copies.check()


def test_a_topic_that_was_recreated_is_read_again_and_rows_that_it_lacks_are_swept(
    d: Driver, copies_of: MakeCopies
) -> None:
    copies = copies_of(d)
    d.send(TOTALS, "old", Total(1))
    d.send(TOTALS, "both", Total(1), Total(2), Total(3))
    copies.catch_up(models=[])
    d.log.delete(TOTALS.name)
    d.send(TOTALS, "both", Total(9))
    sink = copies.catch_up(models=[])
    assert [(row["key"], row["orders"]) for row in copies.rows("customer_totals")] == [("both", 9)]
    assert sink.counts.swept == 1


def test_a_sink_that_was_away_too_long_reads_again_and_sweeps_what_was_deleted(
    d: Driver, copies_of: MakeCopies
) -> None:
    """The deletion itself is gone from the topic: only the sweep can find it."""
    copies = copies_of(d)
    d.send(TOTALS, "stays", Total(1))
    d.send(TOTALS, "goes", Total(1))
    copies.catch_up(models=[])
    d.send(TOTALS, "goes", None)
    d.send(TOTALS, "stays", Total(2))
    forget_deletions(d)
    sink = copies.catch_up(models=[])
    assert [(row["key"], row["orders"]) for row in copies.rows("customer_totals")] == [("stays", 2)]
    assert sink.counts.swept == 1
    copies.catch_up(models=[])
    assert len({str(one) for one in copies.noticed}) == len(copies.noticed) == 4


def forget_deletions(d: Driver) -> None:
    """Let time pass until compaction has removed the deletions."""
    for _ in range(3):
        d.clock.advance(40 * 24 * HOUR)
        d.log.compact(TOTALS.name)  # type: ignore[attr-defined]


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_while_reading_again_leaves_old_rows_until_they_are_swept_together(
    d: Driver, copies_of: MakeCopies, step: str
) -> None:
    copies = copies_of(d)
    for number in range(8):
        d.send(TOTALS, f"k{number}", Total(1), Total(2))
    copies.catch_up(models=[], batch=2)
    for number in range(0, 8, 2):
        d.send(TOTALS, f"k{number}", None)
    d.send(TOTALS, "k1", Total(3))
    forget_deletions(d)
    for arrival in (1, 2):
        crash(copies, step, arrival, models=[], batch=2)
        rows = {row["key"]: row["orders"] for row in copies.rows("customer_totals")}
        assert all(rows[f"k{number}"] >= 2 for number in range(1, 8, 2))  # never an older version
    copies.catch_up(models=[], batch=2)
    rows = {row["key"]: row["orders"] for row in copies.rows("customer_totals")}
    assert rows == {"k1": 3, "k3": 2, "k5": 2, "k7": 2}


def test_a_quiet_topic_is_not_read_again_however_long_ago(d: Driver, copies_of: MakeCopies) -> None:
    copies = copies_of(d)
    d.send(TOTALS, "ada", Total(1))
    copies.catch_up(models=[])
    d.clock.advance(400 * 24 * HOUR)
    assert copies.catch_up(models=[]).counts.records == 0


def test_a_read_that_is_not_finished_in_time_starts_over(d: Driver, copies_of: MakeCopies) -> None:
    copies = copies_of(d)
    for number in range(20):
        d.send(TOTALS, f"k{number}", Total(1))
    assert crash(copies, "sink.7", 1, models=[], batch=3)
    d.clock.advance(16 * 24 * HOUR)
    copies.catch_up(models=[], batch=3)
    assert len(copies.rows("customer_totals")) == 20
    assert len(copies.noticed) == 4  # both partitions twice


def test_a_sink_that_slept_while_it_followed_reads_again(d: Driver, copies_of: MakeCopies) -> None:
    copies, ended, arrivals = copies_of(d), threading.Event(), itertools.count(1)
    d.send(TOTALS, "stays", Total(1))
    d.send(TOTALS, "goes", Total(1))

    def sleep_once(step: str) -> None:
        if step != "sink.1":
            return
        arrival = next(arrivals)
        if arrival == 3:
            d.send(TOTALS, "goes", None)
            d.send(TOTALS, "stays", Total(2))
            forget_deletions(d)
        elif arrival > 3 and not any(sink.behind.values()) and sink.counts.swept:
            ended.set()

    sink = copies.sink(models=[])
    with faultpoints.installed(sleep_once):
        sink.follow(ended)
    assert [(row["key"], row["orders"]) for row in copies.rows("customer_totals")] == [("stays", 2)]


def test_records_deleted_at_the_position_are_a_reason_to_read_again(d: Driver, copies_of: MakeCopies) -> None:
    copies = copies_of(d)
    for number in range(6):
        d.send(TOTALS, f"k{number}", Total(1))
    copies.catch_up(models=[])
    for number in range(6):
        d.send(TOTALS, f"k{number}", Total(2))
    for partition in (TopicPartition(TOTALS.name, 0), TopicPartition(TOTALS.name, 1)):
        d.log.purge(partition, d.log.ends([partition])[partition])
    d.send(TOTALS, "k0", Total(3))
    copies.catch_up(models=[])
    assert [(row["key"], row["orders"]) for row in copies.rows("customer_totals")] == [("k0", 3)]


def test_a_position_beyond_the_end_of_the_log_is_a_reason_to_read_again(
    d: Driver, copies_of: MakeCopies
) -> None:
    copies = copies_of(d)
    d.send(TOTALS, "ada", Total(1))
    copies.catch_up(models=[])
    copies.execute("UPDATE {schema}tidegate_positions SET next_offset = 1000")
    copies.execute("UPDATE {schema}customer_totals SET orders = 77, tidegate_offset = 900")
    copies.catch_up(models=[])
    assert copies.rows("customer_totals")[0]["orders"] == 1


def test_a_table_that_was_dropped_is_filled_again(d: Driver, copies_of: MakeCopies) -> None:
    copies = copies_of(d)
    change(d, 1)
    copies.catch_up()
    copies.execute("DROP TABLE {schema}customer_totals")
    copies.catch_up()
    copies.check()


def test_positions_that_were_deleted_make_the_sink_read_again_and_sweep(
    d: Driver, copies_of: MakeCopies
) -> None:
    copies = copies_of(d)
    d.send(TOTALS, "ada", Total(1))
    copies.catch_up(models=[])
    copies.execute("UPDATE {schema}customer_totals SET key = 'foreign'")
    copies.execute("DELETE FROM {schema}tidegate_positions")
    copies.catch_up(models=[])
    assert [row["key"] for row in copies.rows("customer_totals")] == ["ada"]


def test_another_table_of_the_same_name_is_refused(d: Driver, copies_of: MakeCopies) -> None:
    copies = copies_of(d)
    copies.execute("CREATE TABLE {schema}customer_totals (key TEXT PRIMARY KEY, orders INT)")
    d.send(TOTALS, "ada", Total(1))
    with pytest.raises(StateError, match="average") as caught:
        copies.catch_up(models=[])
    assert caught.value.code == "other-columns"


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["shut down", "crashed"])
def test_a_sink_goes_on_after_its_database_was_restarted(
    d: Driver, postgres: Postgres, how: signal.Signals
) -> None:
    schema = f"restarted_{how.value}"
    with postgres.connect() as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    copies = Copies(d, {"url": postgres.url, "schema": schema})
    change(d, 1)
    sink, ended, troubles = copies.sink(), threading.Event(), []

    def retries(error: TidegateError) -> bool:
        troubles.append(error)
        return error.retryable

    with ExitStack() as stack:
        thread = threading.Thread(target=run_sink, args=(sink, ended, retries))
        stack.callback(thread.join)
        stack.callback(ended.set)
        thread.start()
        wait_for(lambda: sink.counts.records > 0)
        postgres.stop(how)
        stack.callback(copies.close)
        change(d, 2)
        wait_for(lambda: bool(troubles))
        postgres.start()
        before = sink.counts.records
        wait_for(lambda: sink.counts.records > before and not any(sink.behind.values()))
        ended.set()
        thread.join()
        copies.catch_up()
        copies.check()
    assert {error.code for error in troubles} == {"database-failed"}
    assert "a-secret-password" not in "".join(map(str, troubles))


def test_a_thread_reports_a_failure_once_and_goes_on(
    d: Driver, copies_of: MakeCopies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sinks.running.FIRST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr("tidegate.sinks.threads.LONGEST_WAIT_SECONDS", 0.02)
    copies = copies_of(d)
    reported: list[TidegateError] = []
    change(d, 1)
    failures = iter([ValueError("odd"), ValueError("odd"), None])

    def fail(step: str) -> None:
        if step == "sink.4" and (error := next(failures, None)) is not None:
            raise error

    sink = copies.sink()

    def report(error: TidegateError) -> bool:
        reported.append(error)
        return True

    thread = SinkThread("copies", lambda _: (sink, copies._reader), report)
    with faultpoints.installed(fail):
        thread.start()
        wait_for(lambda: sink.counts.records > 0 and not any(sink.behind.values()))
    change(d, 2)
    thread.close(catch_up=True)
    copies.check()
    assert [error.code for error in reported] == ["sink-failed"]
