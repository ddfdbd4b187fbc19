"""Random apps, random edits of them, and random histories, for Hypothesis."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from hypothesis import strategies as st
from tests.upgrade.random_apps import RATES, SOURCES, Folded, Pipeline, Spec, Step
from tests.upgrade.trial import History

from tidegate.testing import Commit

STEPS: st.SearchStrategy[tuple[Step, ...]] = st.lists(
    st.one_of(
        st.tuples(st.just("drop"), st.integers(2, 4)),
        st.tuples(st.just("times"), st.integers(2, 3)),
        st.just(("limit", 0)),
    ),
    max_size=2,
).map(tuple)  # type: ignore[arg-type]
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "sources": st.lists(st.sampled_from(SOURCES), min_size=1, max_size=3, unique=True).map(tuple),
    "before": STEPS,
    "join": st.sampled_from([0, 0, 1, 2]),
    "gate": st.sampled_from([False, False, True]),
    "behind": STEPS,
    "key": st.sampled_from([None, 0, 2, 5]),
    "events": st.booleans(),
    "end": st.sampled_from(["count", "sum", "largest", None]),
    "store": st.sampled_from(["rows", "other"]),
    "rows": st.sampled_from([None, None, ("keep", 2), ("label", 1), ("label", 2), ("regroup", 3)]),
    "sink": st.sampled_from(["out", "out", "alt"]),
}
MODELS = st.builds(
    Folded, st.sampled_from(SOURCES), weight=st.integers(1, 2), remove=st.sampled_from([0, 0, 5])
)
MOST = st.sampled_from([99, 12])


def valid(one: Pipeline) -> Pipeline:
    """A pipeline writes something."""
    return one if one.events or one.end else replace(one, end="count")


def pipelines(name: str) -> st.SearchStrategy[Pipeline]:
    return st.builds(Pipeline, st.just(name), **FIELDS).map(valid)


SPECS: st.SearchStrategy[Spec] = st.builds(
    Spec,
    st.one_of(st.tuples(pipelines("a")), st.tuples(pipelines("a"), pipelines("b"))),
    st.none() | MODELS,
    MOST,
)


@st.composite
def edits(draw: st.DrawFn, old: Spec) -> Spec:
    """Return another version: with one to three edits."""
    new = old
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["field"] * 5 + ["pipeline", "model", "setting"]))
        match kind:
            case "field":
                at = draw(st.integers(0, len(new.pipelines) - 1))
                name = draw(st.sampled_from([one.name for one in fields(Pipeline) if one.name in FIELDS]))
                edited = valid(replace(new.pipelines[at], **{name: draw(FIELDS[name])}))
                new = replace(new, pipelines=(*new.pipelines[:at], edited, *new.pipelines[at + 1 :]))
            case "pipeline":
                first, *others = new.pipelines
                new = replace(new, pipelines=(first,) if others else (first, draw(pipelines("b"))))
            case "model":
                new = replace(new, model=draw(st.none() | MODELS))
            case _:
                new = replace(new, most=draw(MOST))
    return new


VERSIONS = SPECS.flatmap(lambda old: st.tuples(st.just(old), edits(old)))
KEYS = st.sampled_from(["k0", "k1", "k2", "k3"])
TOPICS, VALUES, TIMES = (*SOURCES, RATES), 17, 51


def record(number: int) -> tuple[str, str, int, int]:
    """One number instead of four: Hypothesis draws it faster."""
    number, time = divmod(number, TIMES)
    number, value = divmod(number, VALUES)
    number, key = divmod(number, 4)
    return TOPICS[number], f"k{key}", value, time


TURN = st.lists(st.integers(0, len(TOPICS) * 4 * VALUES * TIMES - 1).map(record), max_size=10)
COMMANDS = st.lists(st.tuples(st.sampled_from(["pause", "pause", "resume"]), KEYS), max_size=2)
HISTORIES = st.builds(
    History,
    st.lists(st.tuples(TURN, COMMANDS), min_size=1, max_size=2),
    crash=st.none() | st.sampled_from(list(Commit)),
    kills=st.just([]) | st.lists(st.integers(0, 200), max_size=2),
    between=st.just([]) | TURN,
    after=TURN,
    unread=st.booleans(),
    partitions=st.sampled_from([1, 2]),
)
