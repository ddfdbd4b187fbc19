"""Compare a preview with a fresh run of its version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.upgrade import versions
from tests.upgrade.versions import Rows, fresh_rows

from tidegate import App
from tidegate.log.reads import fold
from tidegate.models.row import decode_row
from tidegate.runtime.replay import Cut
from tidegate.testing import Driver
from tidegate.types import TopicPartition
from tidegate.upgrade.cut import Bracket, live_cut
from tidegate.upgrade.previews import Preview


@contextmanager
def noted_cuts() -> Iterator[list[Cut]]:
    """The cuts of the previews in a block."""
    found: list[Cut] = []

    def noted(*args: Any) -> Bracket:
        bracket = live_cut(*args)
        found.append(bracket.cut)
        return bracket

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.upgrade.previews.live_cut", noted)
        yield found


def live_rows(d: Driver, topic: str) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for number in range(d.log.describe(topic).partitions):
        found |= {key: row for key, (row, _) in fold(d.log, TopicPartition(topic, number)).items()}
    return found


def applied(before: dict[bytes, bytes], preview: Preview, sink: str) -> dict[bytes, bytes]:
    """The rows of a sink after what the preview shows."""
    after = dict(before)
    for row in preview.rows(sink):
        assert after.get(row.key) == row.before
        if row.after is None:
            del after[row.key]
        else:
            after[row.key] = row.after
    return after


def states(d: Driver) -> dict[bytes, bytes]:
    rows = live_rows(d, "shop-sums-changelog")
    return {key: bytes(decode_row(row).state) for key, row in rows.items()}


def check_against_fresh(d: Driver, app: App, preview: Preview, cut: Cut) -> Rows:
    """The rows of the live app with the differences are those of a fresh run, row by row."""
    expected = fresh_rows(app, d.log, cut, versions.manifest_of(d.log))
    assert preview.sinks.keys() == expected.keys()
    for sink, rows in expected.items():
        before = states(d) if sink == "sums" else live_rows(d, sink)
        assert applied(before, preview, sink) == rows
        counts = preview.counts[sink]
        assert counts.equal == sum(before.get(key) == row for key, row in rows.items())
        assert (counts.foreign, counts.in_flight) == (0, 0)
    return expected
