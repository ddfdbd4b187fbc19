"""P1, I9: what a gate admits ends the same, record for record, whether it goes over in memory or is read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gate.app import COUNTS, EVENTS
from tests.repetitions import repeated

from tidegate import App
from tidegate.log.reads import read_between
from tidegate.log.records import ReadRow, rows_of
from tidegate.runtime.slot import slot as slot_module
from tidegate.testing import Commit, Driver
from tidegate.types import TopicPartition

KEYS = ["ada", "bob", "cid"]
MANY = 130
"""Enough for a whole batch."""
OWN_TIMES = ("gated-control", "gated-status")
"""Topics of the driver, whose records name writers and hosts."""

keys = st.sampled_from(KEYS)
ops = st.one_of(
    st.tuples(st.just("send"), keys, st.tuples(st.sampled_from([1, 3, MANY]), st.integers(0, 40))),
    st.tuples(st.just("send"), keys, st.tuples(st.sampled_from([1, 3, MANY]), st.integers(0, 40))),
    st.tuples(st.just("pause"), keys, st.none()),
    st.tuples(st.just("resume"), keys, st.none()),
    st.tuples(st.just("advance"), st.sampled_from([5, 1500]), st.none()),
    st.tuples(st.just("crash"), st.sampled_from(["log.commit.7", "log.commit.8", *Commit]), st.booleans()),
    st.tuples(st.sampled_from(["move", "stop"]), st.none(), st.none()),
)
steps = st.lists(st.tuples(ops, st.booleans()), min_size=5, max_size=15)


def app() -> App:
    """A gate, and behind it another internal topic. All tasks take whole batches."""
    made = App("gated")
    passed = made.stream(EVENTS, on_error="dead-letter").gate("door", drain_chunk=3)
    passed.repartition("again").count("counted").to(COUNTS)
    return made


def play(given_steps: list[Any], *, batches: bool) -> dict[TopicPartition, list[ReadRow]]:
    """Perform the steps. Returns all that is in the log then: outputs, changelogs and positions too."""
    with Driver(app(), partitions=2, batches=batches) as driver:
        gate, number, placed = driver.gate("door"), 0, False
        for (what, first, second), runs in given_steps:
            if what == "send":
                count, late = second
                at = driver.clock.now() - late
                own = [("trace", b"1")] if late % 3 == 1 else []
                driver.send(EVENTS, first, *range(number, number + count), timestamp=at, headers=own)
                number += count
            elif what in ("pause", "resume"):
                getattr(gate, what)(first)
            elif what == "advance":
                driver.advance(first)
            elif what == "crash" and not placed:
                placed = True
                driver.send(EVENTS, "ada", -1)  # so that there is something to commit
                driver.crash(str(first), elsewhere=second)
            elif what in ("move", "stop") and not placed:
                getattr(driver, what)()
            if runs:
                driver.run()
                placed = False
        for key in KEYS:
            gate.resume(key)
        driver.run()
        return _everything(driver)


def _everything(driver: Driver) -> dict[TopicPartition, list[ReadRow]]:
    log = driver.log
    infos = [log.describe(name) for name in log.names() if name not in OWN_TIMES]
    partitions = [
        (TopicPartition(info.name, number), start)
        for info in infos
        for number, start in enumerate(info.starts)
    ]
    return {
        one: [row for batch in read_between(log, one, start, log.ends([one])[one]) for row in rows_of(batch)]
        for one, start in partitions
    }


@pytest.mark.soak
@settings(max_examples=repeated(15, soak=500))
@given(steps, st.booleans())
def test_all_topics_and_positions_are_those_of_a_slot_that_reads_everything(
    given_steps: list[Any], batches: bool
) -> None:
    handed = play(given_steps, batches=batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slot_module, "hand_over", lambda *_: False)
        read = play(given_steps, batches=batches)
    assert handed == read
