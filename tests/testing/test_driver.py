"""The test driver as its users meet it."""

from __future__ import annotations

import pytest

from tidegate import (
    App,
    ConfigError,
    Context,
    Record,
    TableTopic,
    Topic,
    TopologyError,
    UserCodeError,
    stores,
)
from tidegate.clock import ManualClock
from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Commit, Driver, Outcome
from tidegate.testing.pytest_plugin import DriverFactory

LINES = Topic("lines", str)
LOUD = Topic("loud", str)
COUNTS = TableTopic("counts", int)
BEATS = Topic("beats", int)
ELSEWHERE = Topic("elsewhere", str)
SEEN = stores.window("seen", int, size=10, retention=1000)
LAST = stores.timestamped("last", str)
VISITS = stores.session("visits", int, retention=1000)


def shout(line: str) -> str:
    if line == "hush":
        raise ValueError("no")
    return line.upper()


def counting() -> App:
    app = App("counting")
    lines = app.stream(LINES)
    lines.map(shout).to(LOUD)
    lines.group_by("by-line", lambda line: line).count("counted").to(COUNTS)
    return app


# --- sending and looking ------------------------------------------------------------------------------


def test_what_is_sent_shows_after_a_run_by_key_by_partition_and_as_rows(driver: DriverFactory) -> None:
    d = driver(counting(), partitions=3)
    d.send(LINES, "ada", "one", "two")
    d.send(LINES, "bob", "one")
    assert (d.values(LOUD), d.rows(COUNTS), d.by_partition(LOUD)) == ([], {}, [])
    d.run()
    assert d.by_key(LOUD) == {"ada": ["ONE", "TWO"], "bob": ["ONE"]}
    assert d.by_partition(LOUD) == [[("bob", "ONE")], [], [("ada", "ONE"), ("ada", "TWO")]]
    assert d.rows(COUNTS) == {"one": 2, "two": 1}
    assert d.by_key(COUNTS) == {"one": [1, 2], "two": [1]}


def test_a_record_keeps_its_own_time_and_headers(driver: DriverFactory) -> None:
    d = driver(counting())
    d.send(LINES, "ada", "one", timestamp=5, headers=[("from", b"here")])
    d.run()
    (record,) = d.records(LOUD)
    assert (record.timestamp, record.headers[0]) == (5, ("from", b"here"))


def test_a_run_with_nothing_new_changes_nothing(driver: DriverFactory) -> None:
    d = driver(counting(), partitions=2, slots=2)
    d.send(LINES, "ada", "one")
    d.run()
    before = d.outcome()
    d.run()
    assert d.outcome() == before


def test_many_more_records_than_one_turn_takes_are_all_done_in_one_run(driver: DriverFactory) -> None:
    d = driver(counting(), partitions=2)
    d.send(LINES, "ada", *["one"] * 2500)
    d.run()
    assert d.rows(COUNTS) == {"one": 2500}


def test_a_topic_that_nobody_knows_is_an_error_and_not_empty(driver: DriverFactory) -> None:
    d = driver(counting())
    for look in (d.records, d.values, d.by_key, d.by_partition):
        with pytest.raises(ConfigError, match="does not use Topic"):
            look(ELSEWHERE)
    with pytest.raises(ConfigError, match="no-such-topic"):
        d.rows(TableTopic("misspelt", int))


def test_a_topology_with_a_mistake_is_reported_when_the_driver_is_made() -> None:
    app = App("wrong")
    app.stream(LINES).map(shout)
    with pytest.raises(TopologyError, match="dangling"):
        Driver(app)


# --- stores -------------------------------------------------------------------------------------------


def test_a_store_is_shown_beside_its_changelog(driver: DriverFactory) -> None:
    d = driver(counting(), partitions=3, slots=2)
    d.send(LINES, "ada", "one", "two", "one")
    d.run()
    counted = d.store("counted")
    assert counted.contents == counted.changelog == {"one": 2, "two": 1}
    assert set(counted.partitions) == set(counted.changelogs) == {0, 1, 2}
    d.assert_stores_match_changelogs()


def test_every_kind_of_store_can_be_shown(driver: DriverFactory) -> None:
    def step(record: Record[str, str], ctx: Context[str, str]) -> None:
        ctx.store(SEEN).put(record.key, record.timestamp // 10 * 10, len(record.value))
        ctx.store(LAST).put(record.key, record.value)
        ctx.store(VISITS).put(record.key, record.timestamp, record.timestamp + 5, 1)

    app = App("kinds")
    app.stream(LINES).process("step", step, stores=[SEEN, LAST, VISITS])
    d = driver(app)
    d.send(LINES, "ada", "one", timestamp=17)
    d.run()
    d.move()
    d.run()
    assert d.store(SEEN).contents == {("ada", 10): 3}
    assert d.store(VISITS).contents == {("ada", 17, 22): 1}
    (last,) = d.store(LAST).contents.values()
    assert (last.value, last.timestamp) == ("one", 17)
    d.assert_stores_match_changelogs()


def test_a_store_that_differs_from_its_changelog_is_reported_by_name(driver: DriverFactory) -> None:
    d = driver(counting())
    d.send(LINES, "ada", "one")
    d.run()
    d.send(TableTopic("counting-counted-changelog", int), "two", 7)
    with pytest.raises(AssertionError, match=r"store 'counted', partition 0: \{'one': 1\} is not"):
        d.assert_stores_match_changelogs()


def test_a_store_is_read_by_a_name_that_exists_and_after_a_run(driver: DriverFactory) -> None:
    d = driver(counting())
    with pytest.raises(ConfigError, match=r"no store 'other'.*it has: counted"):
        d.store("other")
    for look in (lambda: d.store("counted"), d.outcome):
        with pytest.raises(ConfigError, match="not-running"):
            look()


# --- crashes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", Commit)
def test_a_crash_at_a_step_of_the_commit_comes_once_and_changes_nothing(
    step: Commit, driver: DriverFactory
) -> None:
    d = driver(counting(), partitions=3)
    d.send(LINES, "ada", "one", "one")
    d.crash(at=step)
    d.run()
    assert d.happened == [f"crash at {step}, arrival 1"]
    assert d.rows(COUNTS) == {"one": 2}
    d.run()
    assert len(d.happened) == 1


def test_crashes_come_in_the_order_in_which_they_were_placed(driver: DriverFactory) -> None:
    d = driver(counting(), partitions=2)
    d.send(LINES, "ada", "one")
    d.crash(at=Commit.LOG_COMMITTED)
    d.crash(at="restore.6", arrival=2)
    d.crash(at="log.commit.7")
    d.run()
    assert [reported.split(",")[0] for reported in d.happened] == [
        "crash at commit.6",
        "crash at restore.6",
        "crash at log.commit.7",
    ]
    assert d.values(LOUD) == ["ONE"]


def test_a_crash_waits_for_its_arrival(driver: DriverFactory) -> None:
    d = driver(counting(), partitions=2)
    d.crash(at="restore.6", arrival=3)
    d.run()
    assert d.reached["restore.6"] == 3 + 4


def test_a_crash_that_never_comes_fails_the_test_and_is_forgotten(driver: DriverFactory) -> None:
    d = driver(counting())
    d.crash(at="restore.4", arrival=3)
    with pytest.raises(AssertionError, match=r"did not happen: crash at restore\.4, arrival 3"):
        d.run()
    d.run()


def test_an_arrival_is_counted_from_one(driver: DriverFactory) -> None:
    with pytest.raises(ConfigError, match="count from 1"):
        driver(counting()).crash(at=Commit.LOG, arrival=0)


def test_steps_are_counted_as_they_are_reached(driver: DriverFactory) -> None:
    d = driver(counting(), partitions=2, slots=2)
    d.run()
    assert d.reached["restore.6"] == 4
    d.run()
    assert d.reached["restore.6"] == 4


# --- other hosts --------------------------------------------------------------------------------------


def test_a_move_restores_from_the_log_and_a_way_back_goes_on_from_what_lies_there(
    driver: DriverFactory,
) -> None:
    d = driver(counting())
    d.send(LINES, "ada", "one")
    d.run()
    assert d.reached["restore.4"] == 0
    d.move("other")
    d.run()
    assert d.reached["restore.4"] == 1
    d.move("host-0")
    d.run()
    assert d.reached["restore.4"] == 1
    assert d.store("counted").contents == {"one": 1}


def test_a_store_that_was_discarded_is_reported(driver: DriverFactory) -> None:
    seen = stores.key_value("unlogged", int).without_changelog()
    app = App("unlogged")
    app.stream(LINES).count(seen)
    d = driver(app)
    d.send(LINES, "ada", "one")
    d.run()
    before = len(d.discarded)
    d.move("other")
    d.run()
    (reported,) = d.discarded[before:]
    assert reported.startswith("unlogged, partition 0: it has no changelog")


def test_a_crash_that_takes_the_host_along_restores_elsewhere(driver: DriverFactory) -> None:
    d = driver(counting())
    d.send(LINES, "ada", "one")
    d.run()
    d.stop()
    d.send(LINES, "ada", "one")
    d.crash(at="restore.6", elsewhere=True)
    d.run()
    assert d.reached["restore.4"] == 1
    assert d.rows(COUNTS) == {"one": 2}


def test_after_a_stop_the_next_run_starts_again_from_the_disk(driver: DriverFactory) -> None:
    d = driver(counting(), partitions=2)
    d.send(LINES, "ada", "one")
    d.run()
    d.stop()
    with pytest.raises(ConfigError, match="not-running"):
        d.store("counted")
    d.run()
    assert d.reached["restore.4"] == 0
    assert d.store("counted").contents == {"one": 1}


# --- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize(
    ("at", "error"),
    [
        (Commit.CHANGELOGS, "exception"),
        ("restore.1", "disk-full"),
        ("log.commit.6", "disk-full"),
        ("log.commit.7", "unknown-commit"),
        ("log.commit.8", "unknown-commit"),
        (Commit.TAKEN, OSError("no route to host")),
    ],
)
def test_an_error_in_one_slot_is_survived(at: str, error: object, slots: int, driver: DriverFactory) -> None:
    d = driver(counting(), partitions=3, slots=slots)
    d.send(LINES, "ada", "one", "two")
    d.send(LINES, "bob", "one")
    d.faults(at, error)  # type: ignore[arg-type]
    d.run()
    assert len(d.happened) == 1
    assert d.rows(COUNTS) == {"one": 2, "two": 1}
    assert d.by_key(LOUD) == {"ada": ["ONE", "TWO"], "bob": ["ONE"]}
    d.assert_stores_match_changelogs()


def test_only_the_log_can_leave_a_commit_unknown(driver: DriverFactory) -> None:
    d = driver(counting())
    with pytest.raises(ConfigError, match="cannot be unknown at commit"):
        d.faults(Commit.LOG, "unknown-commit")
    with pytest.raises(ConfigError, match="there is no error 'flood'"):
        d.faults(Commit.LOG, "flood")  # type: ignore[arg-type]


def test_an_error_of_the_app_comes_out_of_run_and_what_was_placed_is_forgotten(driver: DriverFactory) -> None:
    d = driver(counting(), partitions=2, slots=2)
    d.send(LINES, "ada", "one", "hush")
    d.crash(at=Commit.LOG)
    with pytest.raises(UserCodeError, match="ValueError: no"):
        d.run()
    with pytest.raises(UserCodeError):
        d.run()
    assert (d.happened, d.values(LOUD)) == ([], [])


def test_with_dead_letters_the_rest_goes_on(driver: DriverFactory) -> None:
    d = driver(counting(), on_error="dead-letter")
    d.send(LINES, "ada", "one", "hush", "two")
    d.run()
    assert d.values(LOUD) == ["ONE", "TWO"]
    (letter,) = d.dead_letters()
    assert (letter.key, letter.value) == (b"ada", b"hush")


# --- time, logs, the end ------------------------------------------------------------------------------


class Beat:
    """Forwards the time, every second of the wall clock."""

    def init(self, ctx: Context[str, int]) -> None:
        ctx.schedule(1000, lambda now: ctx.forward(Record("beat", now, now)), by="wall")

    def process(self, record: Record[str, str], ctx: Context[str, int]) -> None:
        """Time alone counts."""


def test_the_clock_moves_only_by_advance(driver: DriverFactory) -> None:
    app = App("beats")
    app.stream(LINES).process("beat", Beat).to(BEATS)
    d = driver(app, clock=ManualClock(5000))
    d.run()
    d.run()
    assert d.values(BEATS) == []
    d.advance(1000)
    d.run()
    assert d.values(BEATS) == [6000]


def test_two_drivers_one_after_the_other_go_on_over_one_log() -> None:
    log = SqliteLog(clock=ManualClock())
    for number in (1, 2):
        with Driver(counting(), partitions=2, log=log) as d:
            d.send(LINES, "ada", "one")
            d.run()
            assert d.rows(COUNTS) == {"one": number}
    log.close()


def test_two_runs_compare_as_values(driver: DriverFactory) -> None:
    outcomes: list[Outcome] = []
    for said in ("one", "one", "two"):
        d = driver(counting(), partitions=2)
        d.send(LINES, "ada", said)
        d.run()
        outcomes.append(d.outcome())
    assert outcomes[0] == outcomes[1] != outcomes[2]
    assert set(outcomes[0].topics) == {"loud", "counts", "counting-by-line-repartition"}
