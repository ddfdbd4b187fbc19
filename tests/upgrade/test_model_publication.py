"""What an upgrade publishes of a model, and what clients with old tokens get from a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.models.checks import assert_rows_are_the_fold
from tests.waiting import HANG_SECONDS

from tidegate import App, Json, TableTopic, Topic
from tidegate.errors import UpgradeError
from tidegate.log import names
from tidegate.log.names import positions as positions_name
from tidegate.log.partitioner import partition_for
from tidegate.log.positions import position_row, read_positions
from tidegate.log.reads import read_between
from tidegate.log.records import rows_of, to_batch
from tidegate.models.answer import Frame, answer
from tidegate.models.formats import ModelEvent
from tidegate.models.patch import apply
from tidegate.models.row import decode_row
from tidegate.models.token import Token
from tidegate.server.replicas import Replicas
from tidegate.testing import Driver
from tidegate.types import TopicPartition
from tidegate.upgrade.model_publication import ModelChange, model_changes, to_batches

PARTITIONS = 2
DIFFS = Topic("diffs", Json[dict[str, int]](), partitions=PARTITIONS)
COUNTS = TableTopic("counts", int)
STATE = dict[str, int]


def first(state: STATE, diff: STATE) -> STATE | None:
    """Keys of the diff are set; an empty diff removes the id."""
    return {**state, **diff} if diff else None


def second(state: STATE, diff: STATE) -> STATE | None:
    """`x` counts double, and ids with a `hidden` do not exist."""
    if not diff or "hidden" in diff:
        return None
    return {**state, **{key: 2 * value if key == "x" else value for key, value in diff.items()}}


def app(id: str, reducer: Any) -> App:
    made = App(id)
    made.model("m", source=DIFFS, initial=dict)(reducer)
    return made


HISTORY: list[tuple[str, STATE]] = [
    ("same", {"a": 1}),
    ("same", {"b": 2}),
    ("changed", {"x": 1, "a": 1}),
    ("changed", {"b": 1}),
    ("hidden", {"hidden": 1}),
    ("gone", {"x": 1}),
    ("gone", {}),
    *((f"more-{n}", {"a" if n % 2 else "x": n}) for n in range(20)),
]


@pytest.fixture
def live() -> Iterator[Driver]:
    """An app that ran, and beside it the rows of its next version under another id."""
    with Driver(app("shop", first), partitions=PARTITIONS) as d:
        for at, (key, diff) in enumerate(HISTORY):
            d.send(DIFFS, key, diff, timestamp=1_000 * (at + 1))
        d.run()
        with Driver(app("staged", second), log=d.log, clock=d.clock, partitions=PARTITIONS) as staged:
            staged.run()
        yield d


def changes(d: Driver, partition: int, staged: str | None = "staged") -> list[ModelChange]:
    log = d.log
    return list(
        model_changes(
            log,
            log.describe("shop-m-changelog"),
            None if staged is None else log.describe(f"{staged}-m-changelog"),
            partition,
            events=log.describe("shop-m-events"),
        )
    )


def publish(d: Driver, staged: str | None = "staged") -> list[ModelChange]:
    """Publish to all partitions, with the positions of the tasks, as an upgrade does."""
    published = []
    with closing(d.log.writer("publisher")) as writer:
        for number in range(PARTITIONS):
            found = changes(d, number, staged)
            published += found
            for partition, batch in to_batches(found).items():
                writer.append(partition, batch)
            changelog = TopicPartition("shop-m-changelog", number)
            end = writer.flush([changelog])[changelog]
            for task, position in read_positions(d.log, "shop").items():
                if task.partition == number:
                    moved = msgspec.structs.replace(position, changelogs={"m": int(end)})
                    row = position_row(task, moved, d.clock.now())
                    writer.append(TopicPartition(positions_name("shop"), 0), to_batch([row]))
            writer.commit()
    return published


def test_each_id_that_differs_gets_one_record_and_one_event(live: Driver) -> None:
    live.stop()
    model = live.model("m")
    before = {id: model.row(id) for id in model.rows()}
    events = {id: len(model.events(id)) for id in before}
    published = publish(live)
    kinds = {change.row.key: change.kind for change in published}
    double = [f"more-{n}".encode() for n in range(2, 20, 2)]  # more-0 has the state 0, as before
    assert kinds == {b"changed": "changed", b"hidden": "gone"} | dict.fromkeys(double, "changed")
    for id, old in before.items():
        new = model.row(id)
        if id.encode() in kinds:
            assert (new.life, new.sequence) == (old.life, old.sequence + 1)
            assert len(model.events(id)) == events[id] + 1
        else:
            assert new == old
            assert len(model.events(id)) == events[id]
    with Driver(app("staged", second), log=live.log, clock=live.clock) as staged:
        recalculated = staged.model("m")
        assert {id: model.state(id) for id in before} == {id: recalculated.state(id) for id in before}
    assert_rows_are_the_fold(model)
    assert not [change for number in range(PARTITIONS) for change in changes(live, number)], "nothing twice"


def test_a_client_with_an_old_token_gets_one_patch_from_a_server(live: Driver, tmp_path: Path) -> None:
    live.stop()
    model = live.model("m")
    held = {id: (model.token(id), model.row(id).document()) for id in ("same", "changed", "hidden", "gone")}
    oldest = Token(1, 1, model.events("changed")[0].hash).text("changed")
    with closing(Replicas(live.log, tmp_path)) as replicas:
        assert served(replicas, live, "changed", held["changed"][0]).patch == {}
        publish(live)
        frames = {id: served(replicas, live, id, token) for id, (token, _) in held.items()}
        first_frame = served(replicas, live, "changed", oldest)
    assert (frames["same"].kind, frames["same"].patch, frames["same"].token) == ("patch", {}, held["same"][0])
    assert (frames["changed"].kind, frames["changed"].patch) == ("patch", {"*": {"x": {"=": 2}}})
    new = {"x": 2, "a": 1, "b": 1}
    assert apply(held["changed"][1], frames["changed"].patch) == new  # type: ignore[arg-type]
    assert first_frame.kind == "patch"
    assert apply({"x": 1, "a": 1}, first_frame.patch) == new  # type: ignore[arg-type]
    assert [frames[id].kind for id in ("hidden", "gone")] == ["gone", "gone"]
    assert frames["gone"].token == held["gone"][0]


def test_a_run_goes_on_from_the_published_rows(live: Driver) -> None:
    live.stop()
    token = live.model("m").token("changed")
    publish(live)
    live.send(DIFFS, "changed", {"c": 1})
    live.send(DIFFS, "hidden", {"a": 1})
    live.run()
    model = live.model("m")
    assert model.state("changed") == {"x": 2, "a": 1, "b": 1, "c": 1}
    assert model.since("changed", token).patch == {"*": {"x": {"=": 2}, "c": {"=": 1}}}
    assert (model.row("hidden").life, model.state("hidden")) == (2, {"a": 1})
    live.assert_stores_match_changelogs()
    assert_rows_are_the_fold(model)
    assert not live.discarded


def test_a_model_that_is_gone_loses_each_id_that_exists(live: Driver) -> None:
    live.stop()
    model = live.model("m")
    alive = {id for id in model.rows() if not model.row(id).gone}
    published = publish(live, None)
    assert {change.row.key.decode() for change in published if change.row.key} == alive
    assert {change.kind for change in published} == {"gone"}
    assert all(model.row(id).gone for id in model.rows())
    back = publish(live)
    assert {change.kind for change in back} == {"created"}
    assert model.row("same").life == 2


def test_records_have_the_form_of_a_live_run(live: Driver) -> None:
    live.stop()
    found = {change.row.key: change for number in range(PARTITIONS) for change in changes(live, number)}
    changed = found[b"changed"]
    assert changed.row.timestamp == changed.event.timestamp == 4_000
    for at, row in ((changed.row_at, changed.row), (changed.event_at, changed.event)):
        end = live.log.ends([at])[at]
        batches = read_between(live.log, at, 0, end)
        own = [one for batch in batches for one in rows_of(batch) if one.key == b"changed"]
        assert own, "it is in the partition of the id"
        assert tuple(row.headers) == tuple(own[-1].headers)
        decode: Any = decode_row if at is changed.row_at else msgspec.json.Decoder(ModelEvent).decode
        assert decode(row.value).life == decode(own[-1].value).life == 1
        assert decode(row.value).sequence == decode(own[-1].value).sequence + 1 == 3


def test_another_number_of_partitions_is_refused(live: Driver) -> None:
    log = live.log
    one = Topic("others", Json[dict[str, int]](), partitions=1)
    other = App("other")
    other.model("m", source=one, initial=dict)(first)
    with Driver(other, log=log, clock=live.clock) as d:
        d.send(one, "a", {"a": 1})
        d.run()
    with pytest.raises(UpgradeError) as refused:
        changes(live, 0, "other")
    assert refused.value.code == "partitions-changed"


def served(replicas: Replicas, d: Driver, id: str, token: str) -> Frame:
    """What a server answers, from its replica at the end of the changelog."""
    partitions = [TopicPartition("shop-m-changelog", number) for number in range(PARTITIONS)]
    ends = {partition.partition: int(end) for partition, end in d.log.ends(partitions).items()}
    with replicas.replica_of("shop-m-changelog", "key-value").snapshot(ends, HANG_SECONDS) as snapshot:
        data = snapshot.get(partition_for(id.encode(), PARTITIONS), id.encode())
    found = answer(id, decode_row(data), token)
    assert found is not None
    return found


def test_a_new_model_of_an_app_that_ran_has_one_event_for_each_id() -> None:
    """Its component is recalculated, since it shares the source with a table."""

    def counting(*, modelled: bool) -> App:
        made = app("shop", first) if modelled else App("shop")
        made.stream(DIFFS).count("counts").to(COUNTS)
        return made

    with Driver(counting(modelled=False), partitions=PARTITIONS) as d:
        for key, diff in HISTORY:
            d.send(DIFFS, key, diff)
        d.run()
        entry = d.upgrade(counting(modelled=True))
        assert entry is not None
        model = d.model("m")
        alive = {id for id in model.rows() if not model.row(id).gone}
        assert entry.differences["m"].put == len(alive)
        assert {id for id, _ in HISTORY} - alive == {"gone"}
        assert {id: len(model.events(id)) for id in alive} == dict.fromkeys(alive, 1)
        assert_rows_are_the_fold(model)
        d.send(DIFFS, "same", {"c": 3})
        d.run()
        assert d.model("m").state("same") == {"a": 1, "b": 2, "c": 3}
        assert_rows_are_the_fold(d.model("m"))
        d.assert_stores_match_changelogs()
        assert not [topic for topic in d.log.names() if names.of_preview(topic)]
