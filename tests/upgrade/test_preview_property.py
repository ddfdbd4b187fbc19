"""Whatever was sent, and whenever the live app ran and crashed: a preview equals a fresh run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.repetitions import repeated
from tests.upgrade import versions
from tests.upgrade.checks import check_against_fresh, noted_cuts
from tests.upgrade.stories import Sent, send
from tests.upgrade.versions import OUT, PARTITIONS, TEXTS

from tidegate import TableTopic
from tidegate.testing import Commit, Driver

KEYS = st.sampled_from(["k0", "k1", "k2", "k3"])
SENT: st.SearchStrategy[Sent] = st.tuples(st.integers(0, 3), KEYS, st.integers(0, 16), st.integers(0, 50))
TURNS = st.lists(st.lists(SENT, max_size=12), min_size=1, max_size=3)
CRASHES = st.none() | st.sampled_from(list(Commit))
BY_NAME = st.sampled_from(list(versions.ALL))
ANY_ORDER: dict[str, TableTopic[str, Any]] = {
    "aggregated": OUT,
    "grouped": OUT,
    "chained": OUT,
    "gated": OUT,
    "tables_joined": TEXTS,
}
"""Apps whose rows do not depend on how the records of tasks mix, and where they write."""


@pytest.mark.soak
@settings(max_examples=repeated(12, soak=1000), deadline=None)
@given(BY_NAME, TURNS, CRASHES, st.sampled_from([1, 2, 3]), st.booleans())
def test_a_preview_equals_a_fresh_run_of_any_history(
    name: str, turns: list[list[Sent]], crash: Commit | None, version: int, batches: bool
) -> None:
    build = versions.ALL[name]
    with noted_cuts() as cuts, Driver(build(1), partitions=PARTITIONS, batches=batches) as d:
        for turn in turns:
            send(d, turn)
            if crash is not None and any(which == 0 for which, *_ in turn) and name != "tables_joined":
                d.crash(crash)
            d.run()
        rows = check_against_fresh(d, build(version), d.preview(build(version)), cuts[-1])
        if name in ANY_ORDER:
            assert rows[ANY_ORDER[name].name] == plain_run(name, version, turns)


def plain_run(name: str, version: int, turns: list[list[Sent]]) -> dict[bytes, bytes]:
    """The rows of a version that runs live, and alone."""
    table: Any = ANY_ORDER[name]
    with Driver(versions.ALL[name](version), partitions=PARTITIONS) as d:
        for turn in turns:
            send(d, turn)
        d.run()
        rows = d.rows(table).items()
        return {table.encode_key(key): table.encode_value(row) for key, row in rows}
