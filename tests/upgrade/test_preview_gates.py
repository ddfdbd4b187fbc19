"""Gates in a preview: what they admitted is a source, and their decisions are not made again."""

from __future__ import annotations

from tests.upgrade import versions
from tests.upgrade.checks import check_against_fresh, noted_cuts
from tests.upgrade.stories import STORY, send
from tests.upgrade.versions import OUT, PARTITIONS, all_ends

from tidegate import App
from tidegate.testing import Driver


def ungated(_: int) -> App:
    app = App("shop")
    app.stream(versions.IN).group_by("by-value", lambda value: f"v{value % 7}").count("counts").to(OUT)
    return app


def test_events_that_a_gate_holds_are_not_part_of_a_preview() -> None:
    with noted_cuts() as cuts, Driver(versions.gated(1), partitions=PARTITIONS) as d:
        gate = d.gate("gate")
        send(d, STORY[:20])
        d.run()
        gate.pause("k0")
        gate.pause("k2")
        send(d, STORY[20:])
        d.run()
        gate.resume("k2")
        d.run()
        assert gate.held("k0") > 0
        before = all_ends(d.log)
        assert d.preview(versions.gated(1)).counts["out"].differing == 0
        preview = d.preview(versions.gated(2))
        check_against_fresh(d, versions.gated(2), preview, cuts[-1])
        assert preview.counts["out"].differing > 0
        assert all_ends(d.log) == before
        gate.resume("k0")
        d.run()
        assert gate.held("k0") == 0
        assert d.preview(versions.gated(1)).counts["out"].differing == 0


def test_a_gate_that_the_live_app_does_not_have_holds_nothing() -> None:
    with Driver(ungated(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        before = all_ends(d.log)
        counts = d.preview(versions.gated(1)).counts["out"]
        assert (counts.differing, counts.equal) == (0, len(d.rows(OUT)))
        assert all_ends(d.log) == before


def test_a_model_that_the_live_app_does_not_have_is_new_for_each_id() -> None:
    with Driver(versions.aggregated(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        before = all_ends(d.log)
        counts = d.preview(versions.modelled(1)).counts
        assert counts["sums"].put == counts["sums"].differing == len(d.rows(OUT))
        assert counts["out"].removed == len(d.rows(OUT))
        assert all_ends(d.log) == before
