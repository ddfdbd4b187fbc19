"""Bad input: unreadable bytes, wrong results, missing keys, odd times, records that are too large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.runtime.dead_letters import append_raw, dead_letter
from tests.runtime.stories import START

from tidegate import App, Record, SerdeError, StateError, TableTopic, Topic
from tidegate.dsl.stream import Stream
from tidegate.testing.driver import Driver

IN, OUT, MORE = (Topic(name, int) for name in ("in", "out", "more"))
ROWS = TableTopic("rows", int)


def refuse_three(value: int) -> int:
    if value == 3:
        raise ValueError("three")
    return value


def sometimes(value: int) -> Any:
    return None if value == 7 else "x"


def everything(value: int) -> str:
    return "all"


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        (b"ada", b"not a number", "undecodable"),
        (b"\xff\xfe", b"1", "undecodable"),
        (b"ada", None, "null-value"),
        (b"ada", b"", "undecodable"),
    ],
)
def test_bytes_that_cannot_be_read_meet_the_policy(key: bytes, value: bytes | None, code: str) -> None:
    app = App("errors")
    app.stream(IN, on_error="dead-letter").to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", 1)
        append_raw(d, "in", key, value)
        d.send(IN, "ada", 2)
        d.run()
        record, reported = dead_letter(d)
        assert (record.key, record.value, reported["tidegate.error.code"]) == (key, value, code)
        assert d.values(OUT) == [1, 2]


def test_bytes_that_cannot_be_read_stop_with_their_position() -> None:
    app = App("errors")
    app.stream(IN).to(OUT)
    with Driver(app) as d:
        d.send(IN, "ada", 1)
        append_raw(d, "in", b"ada", b"x")
        with pytest.raises(SerdeError, match="in/0 offset 1") as caught:
            d.run()
        assert caught.value.position == ("in", 0, 1)


def no_list(value: int) -> Any:
    return None


def text(value: int) -> Any:
    return f"{value}"


def no_record(record: Record[str, int]) -> Any:
    return record.value


def float_time(record: Record[str, int]) -> Record[str, int]:
    return Record(record.key, record.value, 1.5)  # type: ignore[arg-type]


def before_1970(record: Record[str, int]) -> Record[str, int]:
    return Record(record.key, record.value, -1)


def text_header(record: Record[str, int]) -> Record[str, int]:
    return Record(record.key, record.value, record.timestamp, (("a", "b"),))  # type: ignore[arg-type]


def lone_surrogate(record: Record[str, int]) -> Record[str, int]:
    return Record(record.key, record.value, record.timestamp, (("\ud800", b""),))


def our_header(record: Record[str, int]) -> Record[str, int]:
    return Record(record.key, record.value, record.timestamp, (("tidegate.owner", b"me"),))


def no_key(record: Record[str, int]) -> Record[str, int]:
    return Record(None, record.value, record.timestamp)  # type: ignore[arg-type]


WRONG: dict[str, tuple[Callable[[Stream[str, int]], Any], str]] = {
    "flat_map gives no list": (lambda s: s.flat_map(no_list), "wrong-type"),
    "map gives another type": (lambda s: s.map(text), "wrong-type"),
    "map gives nothing": (lambda s: s.map(no_list), "null-value"),
    "map_records gives no record": (lambda s: s.map_records(no_record), "wrong-type"),
    "a timestamp with a fraction": (lambda s: s.map_records(float_time), "wrong-type"),
    "a timestamp before 1970": (lambda s: s.map_records(before_1970), "bad-timestamp"),
    "a header of text": (lambda s: s.map_records(text_header), "wrong-type"),
    "a header that is no text": (lambda s: s.map_records(lone_surrogate), "illegal-name"),
    "a header of ours": (lambda s: s.map_records(our_header), "reserved-name"),
    "a key that is missing": (lambda s: s.map_records(no_key).repartition("again"), "null-key"),
    "map_batches gives no batch": (lambda s: s.map_batches(no_list, int), "wrong-type"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_function_with_a_wrong_result_meets_the_policy_and_does_not_loop(mistake: str) -> None:
    build, code = WRONG[mistake]
    app = App("errors")
    good, bad = app.stream(IN, on_error="dead-letter").branch(lambda value: value > 0)
    good.to(OUT)
    build(bad).to(MORE)
    with Driver(app) as d:
        d.send(IN, "ada", 1, -1, 2)
        d.run()
        record, reported = dead_letter(d)
        assert (record.value, reported["tidegate.error.code"]) == (IN.encode_value(-1), code)
        assert d.values(OUT) == [1, 2]


@pytest.mark.parametrize("batches", [True, False])
@pytest.mark.parametrize("what", ["count", "table", "join", "group_by"])
def test_a_record_without_a_key_is_refused_where_a_key_is_needed(what: str, batches: bool) -> None:
    app = App("errors")
    stream = app.stream(IN, on_error="dead-letter")
    if what == "count":
        stream.count("counts").to(ROWS)
    elif what == "join":
        stream.join(app.table(ROWS), lambda one, two: one + two).to(OUT)
    elif what == "group_by":
        stream.group_by("again", sometimes, key=str).to(OUT)
    else:
        stream.to(ROWS)
    with Driver(app, batches=batches) as d:
        d.send(IN, "x" if what == "group_by" else None, 7)
        d.send(IN, "ada", 1)
        d.run()
        record, reported = dead_letter(d)
        assert (record.value, reported["tidegate.error.code"]) == (IN.encode_value(7), "null-key")


def test_a_null_key_that_stops_names_the_position() -> None:
    app = App("errors")
    app.stream(IN).count("counts").to(ROWS)
    with Driver(app) as d:
        d.send(IN, None, 7)
        with pytest.raises(StateError, match="in/0 offset 0: aggregate"):
            d.run()


def test_records_without_a_key_pass_steps_that_need_none() -> None:
    app = App("errors")
    app.stream(IN).map(lambda value: value + 1).to(OUT)
    with Driver(app, partitions=3) as d:
        d.send(IN, None, 1, 2)
        d.run()
        assert d.values(OUT) == [2, 3]


SMALL = Topic("small", str, config={"max.message.bytes": "500"})
STRICT = Topic("strict", str, config={"message.timestamp.before.max.ms": "1000"})


@pytest.mark.parametrize(
    ("target", "code"), [(SMALL, "record-too-large"), (STRICT, "bad-timestamp")], ids=["size", "time"]
)
@pytest.mark.parametrize("batches", [True, False])
def test_what_the_target_topic_refuses_meets_the_policy_and_does_not_loop(
    target: Topic[str, str], code: str, batches: bool
) -> None:
    texts = Topic("texts", str)
    app = App("errors")
    app.stream(texts, on_error="dead-letter").to(target)
    with Driver(app, batches=batches) as d:
        d.send(texts, "ada", "good")
        d.send(texts, "ada", "x" * 600, timestamp=START - 5_000)
        d.send(texts, "ada", "fine")
        d.run()
        assert d.values(target) == ["good", "fine"]
        assert dead_letter(d)[1]["tidegate.error.code"] == code


YEAR_9999 = 253_402_300_799_999
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}


@pytest.mark.parametrize("batches", [True, False])
def test_timestamps_at_the_ends_of_time_pass_through_state_and_repartitions(batches: bool) -> None:
    source, target = Topic("wide", int, config=ANY_TIME), TableTopic("sums", int, config=ANY_TIME)
    app = App("errors")
    app.stream(source).group_by("again", everything).sum("made", lambda value: value).to(target)
    with Driver(app, batches=batches) as d:
        for value, at in ((1, 0), (2, YEAR_9999), (4, 1), (8, START)):
            d.send(source, "ada", value, timestamp=at)
        d.run()
        d.move()
        d.send(source, "ada", 16, timestamp=YEAR_9999)
        d.run()
        assert d.rows(target) == {"all": 31}
        assert d.records(target)[0].timestamp == 0
        assert d.store("made").contents == d.store("made").changelog


def test_a_record_of_the_year_9999_that_fails_is_a_dead_letter_of_today() -> None:
    source = Topic("wide", int, config=ANY_TIME)
    app = App("errors")
    app.stream(source, on_error="dead-letter").map(refuse_three).to(OUT)
    with Driver(app) as d:
        d.send(source, "ada", 3, timestamp=YEAR_9999)
        d.run()
        assert dead_letter(d)[0].timestamp == d.clock.now()


def test_a_row_larger_than_its_changelog_takes_meets_the_policy_and_does_not_loop() -> None:
    texts, totals = Topic("texts", str), TableTopic("longest", str, config={"max.message.bytes": "2000000"})
    app = App("app")
    app.stream(texts, on_error="dead-letter").map(_many_times).reduce("longest", max).to(totals)
    with Driver(app) as driver:
        driver.send(texts, "k", "a")
        driver.send(texts, "k", "too long")
        driver.send(texts, "k", "b")
        driver.run()
        assert driver.store("longest").contents == {"k": "b"}
        [letter] = driver.dead_letters()
        assert dict(letter.headers)["tidegate.error.code"] == b"row-too-large"


def _many_times(text: str) -> str:
    return text * 400_000 if len(text) > 1 else text
