"""Two apps never share a topic that one of them takes for its own: refused before anything is written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from tests.waiting import HANG_SECONDS

from tidegate import App, ConfigError, TableTopic, TidegateError, Topic
from tidegate.clock import ManualClock
from tidegate.log import names
from tidegate.log.faultpoints import installed
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.testing import Driver
from tidegate.types import TopicPartition

IN = Topic("in", int)
ROWS, OTHER_ROWS = TableTopic("rows", int), TableTopic("other-rows", int)


@pytest.fixture
def log() -> Iterator[SqliteLog]:
    with closing(SqliteLog()) as made:
        yield made


def counting(app: str, store: str, rows: TableTopic[str, int] = ROWS) -> App:
    made = App(app)
    made.stream(IN).count(store).to(rows)
    return made


def grouping(app: str, step: str, store: str) -> App:
    made = App(app)
    made.stream(IN).group_by(step, str).count(store).to(OTHER_ROWS)
    return made


def gated(app: str, gate: str, **topics: str) -> App:
    made = App(app)
    behind = made.stream(IN).gate(gate, **topics)  # type: ignore[arg-type]
    behind.to(Topic(f"out-of-{app}", int))
    return made


def writing(app: str, topic: str) -> App:
    made = App(app)
    made.stream(IN).to(Topic(topic, int))
    return made


def passing(app: str) -> App:
    made = App(app)
    made.stream(IN).to(Topic(f"out-of-{app}", int))
    return made


CLASHES: list[tuple[Callable[[], App], Callable[[], App], str]] = [
    (
        lambda: counting("shop", "eu-totals"),
        lambda: counting("shop-eu", "totals"),
        "shop-eu-totals-changelog",
    ),
    (
        lambda: grouping("shop", "eu-by", "one"),
        lambda: grouping("shop-eu", "by", "two"),
        "shop-eu-by-repartition",
    ),
    (lambda: gated("shop", "eu"), lambda: passing("shop-eu"), "shop-eu-status"),
    (lambda: gated("shop", "eu-door"), lambda: gated("shop-eu", "door"), "shop-eu-door-admitted"),
    (
        lambda: gated("one", "door", admitted="both"),
        lambda: gated("two", "door", admitted="both"),
        "both",
    ),
    (
        lambda: counting("shop", "totals"),
        lambda: writing("other", "shop-totals-changelog"),
        "shop-totals-changelog",
    ),
    (lambda: passing("shop"), lambda: writing("other", "shop-dead-letters"), "shop-dead-letters"),
]


@pytest.mark.parametrize(("first", "second", "topic"), CLASHES, ids=[clash[2] for clash in CLASHES])
@pytest.mark.parametrize("swapped", [False, True])
def test_what_another_app_owns_is_refused_at_the_first_start(
    log: SqliteLog, first: Callable[[], App], second: Callable[[], App], topic: str, swapped: bool
) -> None:
    if swapped:
        first, second = second, first
    with Driver(first(), log=log) as driver:
        driver.send(IN, "ada", 1, 2)
        driver.run()
    before = {name: log.ends([TopicPartition(name, 0)]) for name in log.names()}
    with Driver(second(), log=log) as driver, pytest.raises(ConfigError) as error:
        driver.run()
    assert error.value.code == "name-taken"
    assert topic in error.value.message
    assert repr(first().id) in error.value.message
    assert {name: log.ends([TopicPartition(name, 0)]) for name in log.names()} == before, (
        "nothing was written"
    )


def test_the_app_that_was_there_first_goes_on(log: SqliteLog) -> None:
    with Driver(counting("shop", "eu-totals"), log=log) as driver:
        driver.send(IN, "ada", 1, 2)
        driver.run()
        driver.stop()
        with Driver(counting("shop-eu", "totals"), log=log) as other, pytest.raises(ConfigError):
            other.run()
        driver.send(IN, "ada", 3)
        driver.run()
        assert driver.rows(ROWS) == {"ada": 3}


def test_apps_may_share_sources_outputs_and_topics_of_gates_that_were_named_for_them(log: SqliteLog) -> None:
    shared = {"status": "key-status", "trigger": "triggers", "audit": "audit"}
    for app in (
        gated("one", "door", **shared),
        gated("two", "door", **shared),
        counting("three", "totals"),
        counting("four", "totals"),
        writing("five", "out"),
        writing("six", "out"),
    ):
        with Driver(app, log=log) as driver:
            driver.send(IN, "ada", 1)
            driver.run()


def test_an_app_may_write_to_the_commands_of_anothers_gate(log: SqliteLog) -> None:
    """Whoever writes there pauses keys: foreign writers are what the topics are for."""
    with Driver(gated("shop", "door"), log=log) as driver:
        driver.run()
    with Driver(writing("pauser", "shop-door-trigger"), log=log) as driver:
        driver.run()


def test_an_app_that_writes_its_output_over_its_own_topic_is_refused(log: SqliteLog) -> None:
    app = counting("shop", "c", TableTopic("shop-c-changelog", int))
    with Driver(app, log=log) as driver, pytest.raises(ConfigError) as error:
        driver.run()
    assert error.value.code == "name-taken"


def test_topics_that_only_look_like_a_control_topic_do_no_harm(log: SqliteLog) -> None:
    for name, config, partitions in (
        ("pest-control", {"cleanup.policy": "compact"}, 1),
        ("remote-control", {"cleanup.policy": "compact"}, 1),
        ("traffic-control", {}, 1),
        ("crowd-control", {"cleanup.policy": "compact"}, 3),
    ):
        log.create(TopicSpec(name, partitions, config))
        log.append(TopicPartition(name, 0), to_batch([Row(b"\xff", b"what", 1)]))
    log.append(TopicPartition("remote-control", 0), to_batch([Row(b"manifest/1", b"{}", 1)]))
    log.create(TopicSpec("birth-control", 1, {"cleanup.policy": "compact"}))
    log.append(TopicPartition("birth-control", 0), to_batch([Row(b"manifest/1", b"{}", 1)]))
    with Driver(counting("shop", "totals"), log=log) as driver:
        driver.send(IN, "ada", 1)
        driver.run()
        assert driver.rows(ROWS) == {"ada": 1}


def test_of_two_first_starts_at_once_one_goes_on_at_most(log: SqliteLog) -> None:
    """Both looked before either wrote, and each has written before it looks again. The second to look may
    find that the first has given up already."""
    both = threading.Barrier(2)
    errors: dict[str, TidegateError] = {}

    def meet(point: str) -> None:
        if point in ("first-start.2", "first-start.3"):
            both.wait(HANG_SECONDS)

    def start(app: App) -> None:
        try:
            prepare(app.build(), log, ManualClock())
        except TidegateError as error:
            errors[app.id] = error

    apps = [counting("shop", "eu-totals"), counting("shop-eu", "totals")]
    with installed(meet):
        threads = [threading.Thread(target=start, args=(app,)) for app in apps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_SECONDS)
    assert errors
    assert {error.code for error in errors.values()} == {"name-taken"}
    assert {app.id for app in apps if find_manifest(log, app.id) is None} == set(errors)
    if len(errors) == 2:
        with Driver(apps[0], log=log) as driver:
            driver.run()
        assert names.positions("shop") in log.names()


def test_what_was_admitted_to_a_named_topic_before_the_first_start_is_not_read(log: SqliteLog) -> None:
    """A reset leaves the topic alone; its events are admitted again from the sources."""
    log.create(TopicSpec("processed", 1, {"cleanup.policy": "delete"}))
    with Driver(gated("shop", "door", admitted="processed"), partitions=1, log=log) as driver:
        driver.send(Topic("processed", int), "ada", 7)
        driver.send(IN, "ada", 1, 2)
        driver.run()
        assert driver.values(Topic("out-of-shop", int)) == [1, 2]
