"""What a changed app is refused with: each thing that differs, by name and line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import closing

import msgspec
import pytest

from tidegate import App, Settings, TableTopic, Topic, UpgradeError, stores
from tidegate.changes.unchanged import check_unchanged
from tidegate.clock import SystemClock
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.topics.control import write_control
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.testing.driver import Driver
from tidegate.topology.code import Code, CodeEntry
from tidegate.topology.manifest import Manifest
from tidegate.topology.older import from_format_1

IN, OUT, MORE = Topic("in", int), TableTopic("out", int), Topic("more", int)


def name_of(value: int) -> str:
    return f"{value}"


class Config(Settings):
    least: int = 0


def before() -> App:
    app = App("counting", Config())
    app.stream(IN).group_by("by-name", name_of).filter(bool).count("counts").to(OUT)
    return app


def line_of(function: Callable[[], App], text: str) -> str:
    """`test_unchanged.py:41`: where a text stands in a function."""
    lines, first = inspect.getsourcelines(function)
    [number] = [number for number, line in enumerate(lines, first) if text in line]
    return f"tests/changes/test_unchanged.py:{number}"


@pytest.fixture
def log() -> Iterator[SqliteLog]:
    made = SqliteLog()
    with Driver(before(), log=made, partitions=2) as driver:
        driver.run()
    yield made
    made.close()


def refused(log: SqliteLog, app: App) -> UpgradeError:
    topics = set(log.names())
    with pytest.raises(UpgradeError) as caught:
        prepare(app.build(), log, SystemClock(), partitions=2)
    assert caught.value.code == "changed-app"
    assert "tidegate reset counting" in caught.value.hint
    assert set(log.names()) == topics, "nothing is created for an app that is refused"
    return caught.value


def with_more() -> App:
    app = before()
    app.stream(MORE).map(abs).to(Topic("beside", int))
    return app


def test_what_is_new_is_named_with_its_lines(log: SqliteLog) -> None:
    message = refused(log, with_more()).message
    where = line_of(with_more, "MORE")
    assert f'new source "more" ({where})' in message
    assert f"new map ({where})" in message
    assert f'new sink "beside" ({where})' in message
    assert "by-name" not in message
    assert "component" not in message


def without_filter() -> App:
    app = App("counting", Config())
    app.stream(IN).group_by("by-name", name_of).count("counts").to(OUT)
    return app


def test_what_is_gone_is_named_with_the_line_where_it_was(log: SqliteLog) -> None:
    message = refused(log, without_filter()).message
    assert message.endswith(f"before: filter is gone (it was at {line_of(before, 'filter')})")


def other_store() -> App:
    app = App("counting", Config())
    counted = app.stream(IN).group_by("by-name", name_of).filter(bool)
    counted.count(stores.key_value("counts", float)).to(OUT)
    return app


def test_a_store_whose_rows_are_of_another_type_is_named(log: SqliteLog) -> None:
    message = refused(log, other_store()).message
    assert f'store "counts" ({line_of(other_store, "count(")})' in message
    assert "values are float, were int" in message


def test_a_setting_that_changed_is_named_without_its_value(log: SqliteLog) -> None:
    app = App("counting", Config(least=77))
    app.stream(IN).group_by("by-name", name_of).filter(bool).count("counts").to(OUT)
    message = refused(log, app).message
    assert message.endswith('before: setting "least" changed')
    assert "77" not in message


def test_an_internal_topic_with_other_partitions_is_named(log: SqliteLog) -> None:
    app = App("counting", Config())
    app.stream(IN).group_by("by-name", name_of, partitions=3).filter(bool).count("counts").to(OUT)
    assert "it has 3 partitions, had 2" in refused(log, app).message


def test_a_store_that_goes_with_its_step_is_named_once(log: SqliteLog) -> None:
    app = App("counting", Config())
    app.stream(IN).group_by("by-name", name_of).filter(bool).count("others").to(OUT)
    message = refused(log, app).message
    assert message.count('"counts"') == message.count('"others"') == 1


def test_of_many_differences_some_are_named_and_the_rest_counted(log: SqliteLog) -> None:
    app = before()
    for number in range(20):
        app.stream(Topic(f"in-{number}", int)).to(Topic(f"out-{number}", int))
    assert refused(log, app).message.endswith("and 32 more")


def test_a_manifest_of_the_first_format_is_compared_as_well(log: SqliteLog) -> None:
    found = find_manifest(log, "counting")
    assert found is not None
    older = from_format_1(as_format_1(found))
    check_unchanged(before().build(), older, Code(), CodeEntry)
    with pytest.raises(UpgradeError, match=r"before: filter is gone  Do"):
        check_unchanged(without_filter().build(), older, Code(), CodeEntry)


def as_format_1(manifest: Manifest) -> bytes:
    """Write a manifest as the first version did: with labels in place of steps."""
    components = {
        id: [[manifest.nodes[node].label for node in sub.nodes] for sub in entry.subtopologies]
        for id, entry in manifest.components.items()
    }
    return msgspec.json.encode({**msgspec.structs.asdict(manifest), "components": components, "format": 1})


def summed(factor: int) -> App:
    """Each number gives another function, at another line."""
    app = App("counting")

    def once(value: int) -> int:
        return value

    def twice(value: int) -> int:
        return value * 2

    app.stream(IN).sum("sums", once if factor == 1 else twice).to(OUT)
    return app


def test_a_changed_function_is_refused_by_its_step_and_line() -> None:
    clock = SystemClock()
    log = SqliteLog()
    prepare(summed(1).build(), log, clock)
    prepare(summed(1).build(), log, clock)
    with pytest.raises(UpgradeError, match=r'aggregate "sums" .*test_unchanged.py:') as caught:
        prepare(summed(2).build(), log, clock)
    assert caught.value.code == "changed-app"
    log.close()


def test_an_app_of_the_first_format_goes_on_and_its_code_is_known_from_then_on() -> None:
    clock = SystemClock()
    log = SqliteLog()
    manifest = prepare(summed(1).build(), log, clock).manifest
    with closing(log.writer("earlier")) as writer:
        write_control(writer, "counting", {"manifest/1": as_format_1(manifest), "active": None}, clock.now())
        writer.commit()
    run = prepare(summed(2).build(), log, clock)
    assert [notice.code for notice in run.notices] == ["code-not-compared"], "what it ran with is not known"
    assert prepare(summed(2).build(), log, clock).notices == ()
    with pytest.raises(UpgradeError, match="changed-app"):
        prepare(summed(1).build(), log, clock)
    log.close()
