"""What is new, gone, changed and kept between two versions of an app, and which kind of change it is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct
from tests.changes.versions import between, differing, first, second, verdicts

from tidegate import App, Settings, TableTopic, Topic, operational, stores
from tidegate.changes.changes import ChangeKind, Changes, Thing
from tidegate.changes.compare import compare
from tidegate.changes.summary import clauses
from tidegate.topology.code import CodeEntry

IN, OUT, MORE = Topic("in", int), TableTopic("out", int), Topic("more", int)
BESIDE = Topic("beside", int)
NEW, GONE, KEY, MORE_STATE, SCHEMA, LESS_STATE, CONFIGURATION, LOGIC = ChangeKind


def name_of(value: int) -> str:
    return f"{value}"


class Config(Settings):
    least: int = 0
    note: str = operational("")


def base(config: Config | None = None) -> App:
    app = App("counting", config or Config())
    app.stream(IN).group_by("by-name", name_of).filter(bool).count("counts").to(OUT)
    return app


def line_of(function: Callable[..., App], text: str) -> str:
    lines, start = inspect.getsourcelines(function)
    [number] = [number for number, line in enumerate(lines, start) if text in line]
    return f"tests/changes/test_compare.py:{number}"


def test_the_same_app_differs_in_nothing() -> None:
    changes = between(base(), base())
    assert changes.nothing
    assert (changes.kinds, differing(changes), clauses(changes)) == ([], {}, [])
    assert verdicts(changes) == {"by-name": "kept"}
    assert [change.label for change in changes.components[0].of(Thing.STORE)] == ['store "counts"']


# --- the eight kinds ----------------------------------------------------------------------------------


def with_source() -> App:
    app = App("counting", Config())
    both = app.stream(IN).merge(app.stream(MORE))
    both.group_by("by-name", name_of).filter(bool).count("counts").to(OUT)
    return app


def test_a_new_source() -> None:
    changes = between(base(), with_source())
    found = differing(changes)
    assert (found['source "more"'].verdict, found['source "more"'].thing) == ("new", Thing.SOURCE)
    assert found['source "more"'].location == line_of(with_source, "MORE")
    assert 'source "in"' not in found
    assert NEW in changes.kinds
    assert GONE not in changes.kinds


def test_a_removed_source() -> None:
    changes = between(with_source(), base())
    found = differing(changes)
    assert (found['source "more"'].verdict, found['source "more"'].location) == (
        "gone",
        line_of(with_source, "MORE"),
    )
    assert GONE in changes.kinds
    assert NEW not in changes.kinds


def numbered(key: Any) -> App:
    app = App("counting")
    app.stream(Topic("in", int, key=key)).filter(bool).to(
        BESIDE if key is str else Topic("beside", int, key=key)
    )
    return app


def test_a_source_whose_keys_are_of_another_type() -> None:
    changes = between(numbered(str), numbered(int))
    assert KEY in changes.kinds
    reasons = differing(changes)['source "in"'].reasons
    assert [reason.what for reason in reasons] == ["its keys are int, were str"]


def keyed(names: bool) -> App:
    app = App("counting")
    stream = app.stream(IN)
    (stream.group_by("by-name", name_of) if names else stream.repartition("by-name")).count("counts").to(OUT)
    return app


def test_records_that_get_another_key() -> None:
    assert KEY in between(keyed(names=False), keyed(names=True)).kinds


def with_store() -> App:
    app = App("counting", Config())
    counted = app.stream(IN).group_by("by-name", name_of).filter(bool)
    counted.count("counts").to(OUT)
    counted.sum("sums", int).to(TableTopic("sums", int))
    return app


def test_more_state_and_less_state() -> None:
    more, less = between(base(), with_store()), between(with_store(), base())
    assert MORE_STATE in more.kinds
    assert LESS_STATE not in more.kinds
    assert (differing(more)['store "sums"'].verdict, differing(less)['store "sums"'].verdict) == (
        "new",
        "gone",
    )
    assert 'store "counts"' not in differing(more)
    assert LESS_STATE in less.kinds
    assert MORE_STATE not in less.kinds


class Small(Struct, frozen=True):
    count: int = 0


class Large(Struct, frozen=True):
    count: int = 0
    last: int = 0


def of_rows(kind: Any) -> App:
    app = App("counting")
    app.stream(IN).aggregate("rows", kind, lambda row, _: row).map(lambda row: row.count).to(OUT)
    return app


def test_a_private_schema_with_another_field_is_more_state_or_less() -> None:
    changes = between(of_rows(Small), of_rows(Large))
    assert set(changes.kinds) >= {SCHEMA, MORE_STATE}
    assert LESS_STATE not in changes.kinds
    [reason] = differing(changes)['store "rows"'].reasons
    assert reason.what == "its values have last more"
    assert set(between(of_rows(Large), of_rows(Small)).kinds) >= {SCHEMA, LESS_STATE}


def of_type(kind: Any) -> App:
    app = App("counting")
    app.stream(IN).map(kind).repartition("again").map(int).to(BESIDE)
    return app


def test_another_type_in_an_internal_topic_is_a_private_schema() -> None:
    changes = between(of_type(int), of_type(float))
    assert SCHEMA in changes.kinds
    found = differing(changes)['repartition "again"']
    assert (found.thing, [reason.what for reason in found.reasons]) == (
        Thing.INTERNAL,
        ["its values are float, were int"],
    )


def test_a_setting_is_configuration_and_an_operational_one_is_nothing() -> None:
    changes = between(base(), base(Config(least=77)))
    assert changes.kinds == [CONFIGURATION]
    assert clauses(changes) == ['setting "least" changed']
    assert differing(changes) == {}
    assert between(base(), base(Config(note="other"))).nothing


def without_filter() -> App:
    app = App("counting", Config())
    app.stream(IN).group_by("by-name", name_of).count("counts").to(OUT)
    return app


def test_a_step_that_is_gone_is_logic_and_reaches_what_follows_it() -> None:
    changes = between(base(), without_filter())
    assert changes.kinds == [LOGIC]
    found = differing(changes)
    assert found["filter"].verdict == "gone"
    where = line_of(base, "filter")
    for label in ('store "counts"', 'table sink "out"'):
        [reason] = found[label].reasons
        assert (reason.what, reason.before, reason.upstream) == ("its input filter is gone", where, True)
    assert clauses(changes) == [f"filter is gone (it was at {where})"]


def test_a_step_that_is_new_is_named_by_what_follows_it() -> None:
    found = differing(between(without_filter(), base()))
    assert found["filter"].verdict == "new"
    [reason] = found['store "counts"'].reasons
    assert (reason.what, reason.after) == ("its input filter is new", line_of(base, "filter"))


# --- options ------------------------------------------------------------------------------------------


def windowed(retention: int) -> App:
    app = App("counting")
    seen = stores.window("seen", int, size=10, retention=retention)
    app.stream(IN).process("look", look, stores=[seen]).to(BESIDE)
    return app


def look(record: Any, ctx: Any) -> None:
    ctx.forward(record)


def test_another_retention_of_a_store_is_configuration() -> None:
    changes = between(windowed(100), windowed(200))
    [reason] = differing(changes)['store "seen"'].reasons
    assert (reason.what, reason.kinds) == ("its retention is 200, was 100", [CONFIGURATION])


def logged(**config: str) -> App:
    app = App("counting")
    kept = stores.key_value("seen", int)
    kept = kept.with_changelog({name.replace("_", "."): value for name, value in config.items()})
    app.stream(IN).process("look", look, stores=[kept]).to(BESIDE)
    return app


def unlogged() -> App:
    app = App("counting")
    app.stream(IN).process("look", look, stores=[stores.key_value("seen", int).without_changelog()]).to(
        BESIDE
    )
    return app


def test_a_changelog_that_is_given_up_is_a_change_and_its_settings_are_not() -> None:
    assert between(logged(), logged(segment_bytes="1048576")).nothing, "no row differs by it"
    changes = between(logged(), unlogged())
    what = [reason.what for reason in differing(changes)['store "seen"'].reasons]
    assert "it has no changelog any more" in what


def grouped(partitions: int | None) -> App:
    app = App("counting")
    app.stream(IN).group_by("by-name", name_of, partitions=partitions).count("counts").to(OUT)
    return app


def test_another_partition_count_of_a_repartition() -> None:
    changes = between(grouped(None), grouped(3))
    found = differing(changes)['repartition "by-name"']
    assert "it has 3 partitions, had 2" in [reason.what for reason in found.reasons]
    assert CONFIGURATION in changes.kinds


def skipping(on_error: Any) -> App:
    app = App("counting")
    app.stream(IN, on_error=on_error).to(BESIDE)
    return app


def test_another_policy_for_errors() -> None:
    [reason] = differing(between(skipping(None), skipping("skip")))['source "in"'].reasons
    assert (reason.what, reason.kinds) == ('on_error is "skip", was none', [CONFIGURATION])


def gated(held: int, gate: str = "door") -> App:
    app = App("counting")
    app.stream(IN).gate(gate, max_held=held).count("counts").to(OUT)
    return app


def test_a_gate_that_may_hold_more_is_the_same_and_another_gate_is_named_once() -> None:
    assert between(gated(1), gated(2)).nothing
    assert clauses(between(gated(1), gated(1, "gateway"))) == [
        f'new gate "gateway" ({line_of(gated, "gate(gate")})',
        f'gate "door" is gone (it was at {line_of(gated, "gate(gate")})',
    ]


def test_only_the_gate_itself_is_a_gate_in_the_list_of_things() -> None:
    component = between(gated(1), gated(1)).components[0]
    assert [change.name for change in component.of(Thing.GATE)] == ["door"]
    assert [change.name for change in component.of(Thing.SOURCE)] == ["in"]
    assert [change.name for change in component.of(Thing.SINK)] == ["out"]
    assert component.of(Thing.INTERNAL) == []


# --- what must not be a change --------------------------------------------------------------------------


def two_parts(swapped: bool, extra: bool = False) -> App:
    app = App("counting")

    def one() -> None:
        app.stream(IN).filter(bool).count("counts").to(OUT)

    def two() -> None:
        stream = app.stream(MORE).filter(bool)
        (stream.map(abs) if extra else stream).sum("sums", int).to(TableTopic("sums", int))

    for part in (two, one) if swapped else (one, two):
        part()
    return app


def test_swapped_statements_are_the_same() -> None:
    assert between(two_parts(swapped=False), two_parts(swapped=True)).nothing


def test_another_component_is_the_only_one_that_changed() -> None:
    changes = between(two_parts(swapped=False), two_parts(swapped=True, extra=True))
    assert verdicts(changes) == {"counts": "kept", "sums": "changed"}
    assert set(differing(changes)) == {"map", 'store "sums"', 'table sink "sums"'}


def test_a_component_that_comes_or_goes_leaves_the_others_alone() -> None:
    def one_part() -> App:
        app = App("counting")
        app.stream(IN).filter(bool).count("counts").to(OUT)
        return app

    assert verdicts(between(one_part(), two_parts(swapped=True))) == {"counts": "kept", "sums": "new"}
    assert verdicts(between(two_parts(swapped=True), one_part())) == {"counts": "kept", "sums": "gone"}


# --- details --------------------------------------------------------------------------------------------


def test_a_component_whose_digest_differs_for_no_visible_reason_has_changed() -> None:
    known = first(base())
    made = second(base(), known)
    entry = msgspec.structs.replace(made.components["by-name"], structure="other", digest="other")
    made = msgspec.structs.replace(made, components={"by-name": entry})
    changes = compare(known, made, CodeEntry(), CodeEntry())
    assert verdicts(changes) == {"by-name": "changed"}
    assert clauses(changes) == ["the same steps, in another order or with stores between other ones"]


def joined(rows_first: bool) -> App:
    app = App("counting")
    one, two = app.stream(IN), app.stream(MORE)
    (two.merge(one) if rows_first else one.merge(two)).to(BESIDE)
    return app


def test_inputs_in_another_order_are_named() -> None:
    changes = between(joined(rows_first=False), joined(rows_first=True))
    assert "in another order" in "; ".join(clauses(changes))


def branched(first_to_out: bool) -> App:
    app = App("counting")
    small, rest = app.stream(IN).branch(bool)
    (small if first_to_out else rest).to(BESIDE)
    (rest if first_to_out else small).to(Topic("others", int))
    return app


def test_a_step_that_reads_from_another_one_is_named() -> None:
    changes = between(branched(first_to_out=True), branched(first_to_out=False))
    assert set(verdicts(changes).values()) == {"changed"}
    assert set(differing(changes)) == {'sink "beside"', 'sink "others"'}
    assert changes.kinds == [LOGIC]


def test_changes_are_plain_json() -> None:
    changes = between(base(), with_store())
    assert msgspec.json.decode(msgspec.json.encode(changes), type=Changes) == changes
