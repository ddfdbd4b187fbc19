"""A preview: the rows that another version would change, beside a live app that it leaves alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.upgrade import versions
from tests.upgrade.checks import check_against_fresh, noted_cuts
from tests.upgrade.stories import STORY, Sent, send
from tests.upgrade.versions import (
    EVENTS,
    IN,
    OUT,
    PARTITIONS,
    START,
    all_ends,
)

from tidegate import App, ConfigError, TableTopic, UserCodeError
from tidegate.log import names
from tidegate.log.faultpoints import installed
from tidegate.log.topic import TopicSpec
from tidegate.runtime.replay import Cut
from tidegate.runtime.topics.manifests import manifests
from tidegate.testing import Driver
from tidegate.upgrade.cut import Bracket, live_cut
from tidegate.upgrade.previews import ROUNDS


@pytest.fixture
def cuts() -> Iterator[list[Cut]]:
    """The cuts of the previews of a test."""
    with noted_cuts() as found:
        yield found


@pytest.mark.parametrize("name", versions.ALL)
def test_a_preview_equals_a_fresh_run_row_by_row_and_leaves_everything_as_it_was(
    name: str, cuts: list[Cut]
) -> None:
    build = versions.ALL[name]
    with Driver(build(1), partitions=PARTITIONS) as d:
        send(d, STORY[:30])
        d.run()
        send(d, STORY[30:])
        d.run()
        before, calls = all_ends(d.log), len(versions.CALLS)
        differing = []
        for version in (1, 2) if name != "chained" else (1, 3):
            preview = d.preview(build(version))
            check_against_fresh(d, build(version), preview, cuts[-1])
            differing.append(sum(counts.differing for counts in preview.counts.values()))
            assert preview.settled
        assert any(differing[1:])
        assert differing[0] == 0 or name in ("ordered", "enriched")
        assert all_ends(d.log) == before
        assert len(versions.CALLS) == calls
        d.run()
        assert all_ends(d.log) == before
        d.assert_stores_match_changelogs()


def test_the_unchanged_version_differs_in_nothing(cuts: list[Cut]) -> None:
    with Driver(versions.grouped(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        preview = d.preview(versions.grouped(1))
        assert preview.counts["out"].differing == 0
        assert preview.counts["out"].equal == len(d.rows(OUT)) > 0
        assert preview.records == sum(which == 0 for which, *_ in STORY)
        assert preview.rounds == len(cuts) == 1


def test_while_the_live_app_goes_on_rows_that_it_changed_after_the_cut_do_not_differ() -> None:
    with Driver(versions.grouped(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()

        def followed(*args: Any) -> Bracket:
            bracket = live_cut(*args)
            send(d, STORY[:10])
            d.run()
            return bracket

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tidegate.upgrade.previews.live_cut", followed)
            preview = d.preview(versions.grouped(1))
        assert preview.counts["out"].differing == preview.counts["out"].in_flight == 0
        assert preview.rounds == 1  # the ends of the table topic were taken with the cut
        assert d.rows(OUT) == counted(STORY + STORY[:10])


def test_a_row_that_was_written_around_the_cut_is_compared_again(cuts: list[Cut]) -> None:
    with Driver(versions.grouped(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        waves = [STORY[:4], STORY[4:8]]

        def between(*args: Any) -> Bracket:
            """The live app commits between the positions and the ends of its table topics."""
            bracket = live_cut(*args)
            if waves:
                send(d, waves.pop(0))
                d.run()
            after = {at: int(end) for at, end in d.log.ends(bracket.after).items()}
            cuts.append(bracket.cut)
            return replace(bracket, after=after)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tidegate.upgrade.previews.live_cut", between)
            preview = d.preview(versions.grouped(1))
        assert (preview.rounds, preview.counts["out"].differing) == (3, 0)
        assert preview.counts["out"].in_flight == 0
        check_against_fresh(d, versions.grouped(1), preview, cuts[-1])


def test_rows_that_are_written_again_and_again_are_in_flight() -> None:
    with Driver(versions.grouped(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()

        def between(*args: Any) -> Bracket:
            bracket = live_cut(*args)
            d.send(IN, "k1", 3, timestamp=START)
            d.run()
            return replace(bracket, after={at: int(end) for at, end in d.log.ends(bracket.after).items()})

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tidegate.upgrade.previews.live_cut", between)
            preview = d.preview(versions.grouped(1))
        counts = preview.counts["out"]
        assert (preview.rounds, counts.differing, counts.in_flight) == (ROUNDS, 0, 1)
        [row] = preview.sinks["out"].in_flight
        assert row.key == b"v3"


def test_rows_of_another_writer_are_left_out_and_counted() -> None:
    with Driver(versions.grouped(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        [key, other, *_] = d.rows(OUT)
        d.send(OUT, key, 999)
        d.send(OUT, "foreign", 1)
        d.send(OUT, other, None)
        counts = d.preview(versions.grouped(1)).counts["out"]
        assert (counts.foreign, counts.differing) == (3, 0)
        assert counts.equal == len(d.rows(OUT)) - 2


def test_a_table_topic_that_the_new_code_does_not_write_loses_its_rows_and_a_new_one_gets_all() -> None:
    def renamed(_: int) -> App:
        app = App("shop")
        other = TableTopic("other", int)
        app.stream(IN).group_by("by-value", lambda value: f"v{value % 7}").count("counts").to(other)
        return app

    with Driver(versions.grouped(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        rows = len(d.rows(OUT))
        before = all_ends(d.log)
        counts = d.preview(renamed(2)).counts
        assert (counts["out"].removed, counts["out"].differing) == (rows, rows)
        assert (counts["other"].put, counts["other"].differing) == (rows, rows)
        assert all_ends(d.log) == before


def test_an_app_that_never_ran_gets_all_its_rows() -> None:
    with Driver(versions.grouped(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        before = all_ends(d.log)
        preview = d.preview(versions.grouped(1))
        assert preview.counts["out"].put == len(counted(STORY))
        assert all_ends(d.log) == before


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
def test_records_that_fail_in_the_new_code_are_counted(policy: Any) -> None:
    with Driver(versions.grouped(1), partitions=PARTITIONS, on_error=policy) as d:
        send(d, STORY)
        d.run()
        preview = d.preview(failing())
        assert preview.failures == sum(which == 0 and value > 10 for which, _, value, _ in STORY) > 0
        assert d.dead_letters() == []


def test_a_record_that_fails_under_stop_ends_the_preview_with_its_position() -> None:
    with Driver(versions.grouped(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        before = all_ends(d.log)
        with pytest.raises(UserCodeError, match=r"in/. offset .*ValueError: too much"):
            d.preview(failing())
        assert all_ends(d.log) == before


def failing() -> App:
    def small(value: int) -> int:
        if value > 10:
            raise ValueError("too much")
        return value

    app = App("shop")
    app.stream(IN).map(small).group_by("by-value", lambda value: f"v{value % 7}").count("counts").to(OUT)
    return app


def counted(story: list[Sent]) -> dict[str, int]:
    return dict(Counter(f"v{value % 7}" for which, _, value, _ in story if which == 0))


def test_an_app_with_a_stage_needs_a_session() -> None:
    app = App("shop")
    app.stream(IN).frame("stage", lambda frame: frame).to(EVENTS)
    with Driver(versions.grouped(1)) as d:
        d.run()
        before = all_ends(d.log)
        for act in (d.preview, d.upgrade):
            with pytest.raises(ConfigError) as caught:
                act(app)
            assert caught.value.code == "no-session"
        assert all_ends(d.log) == before


def test_a_missing_source_is_named_and_nothing_is_created() -> None:
    with Driver(versions.aggregated(1)) as d:
        d.run()
        before = all_ends(d.log)
        with pytest.raises(ConfigError, match="'rates' does not exist"):
            d.preview(versions.enriched(2))
        assert all_ends(d.log) == before


def test_what_a_preview_creates_is_in_no_list() -> None:
    with Driver(versions.gated(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        found: list[tuple[list[str], list[str]]] = []

        def look(point: str) -> None:
            if point == "preview.5":
                own = [topic for topic in d.log.names() if topic.startswith("shop.preview")]
                found.append(([one.app for one in manifests(d.log)], own))

        with installed(look):
            d.preview(versions.gated(2))
        [(apps, topics)] = found
        assert apps == ["shop"]
        assert len(topics) > 3
        assert all(names.of_preview(topic) for topic in topics)


def test_an_output_with_another_partition_count_is_refused() -> None:
    with Driver(versions.grouped(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        d.stop()
        d.log.delete(OUT.name)
        d.log.create(TopicSpec(OUT.name, PARTITIONS + 1, {"cleanup.policy": "compact"}))
        before = all_ends(d.log)
        with pytest.raises(ConfigError) as refused:
            d.preview(versions.grouped(2))
        assert refused.value.code == "partitions-changed"
        assert all_ends(d.log) == before
