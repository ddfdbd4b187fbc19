"""Topics and stores as DataFrames of a real session, against plain Python reading."""

from __future__ import annotations

import enum
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, TypedDict
from uuid import UUID

import msgspec
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from tidegate import App, ConfigError, Json, MsgPack, Serde, TableTopic, TidegateError, Topic, connect, stores
from tidegate.log.records import READ_SCHEMA, Row, to_batch
from tidegate.serde.plain import PLAIN
from tidegate.spark.frames import read_store, read_topic
from tidegate.spark.marks import MARKS
from tidegate.spark.spark_types import part_of
from tidegate.spark.store_source import serde_of
from tidegate.spark.topic_source import FrameBatches, Shipped, resolved_location
from tidegate.spark.write import write_topic
from tidegate.state.formats import session_suffix, window_suffix
from tidegate.testing import Driver
from tidegate.types import TopicPartition

NOON = datetime(2024, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
ONE = UUID(int=1)


class Color(enum.Enum):
    BLUE = "blue"


class Sale(msgspec.Struct, frozen=True):
    cents: int
    share: float = 0.5


@dataclass
class Line:
    ends: list[Sale]


class Extra(TypedDict, total=False):
    note: str


class Node(msgspec.Struct):
    name: str
    below: list[Node] = []


class Everything(msgspec.Struct, rename="camel"):
    text: str
    number: int
    share: float
    yes: bool
    raw: bytes
    at: datetime
    day: date
    id: UUID
    color: Color
    line: Line
    extra: Extra
    sales: list[Sale]
    by_number: dict[int, Sale]
    maybe: int | None
    either: int | str
    pair: tuple[int, str]
    tree: Node


class Totals(msgspec.Struct, frozen=True, order=True):
    sales: int = 0
    cents: int = 0


SALES = Topic("sales", Sale)
TOTALS = TableTopic("totals", Totals)
WORDS = Topic("words", str)
UNION: Serde[Any] = Json[Sale | str]()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/log.db"


def everything(number: int) -> Everything:
    odd = bool(number % 2)
    line, sales = Line([Sale(1), Sale(2, 3.5)]), [Sale(number)]
    extra: Extra = {"note": "n"} if odd else {}
    plain = (f"t{number}", number, number / 4, odd, bytes([number]), NOON, date(2024, 5, 1), ONE, Color.BLUE)
    last = (None if odd else number, "s" if odd else 9, (1, "p"), Node("a", [Node("b")]))
    return Everything(*plain, line, extra, sales, {5: Sale(6)}, *last)


def as_row(value: Everything) -> dict[str, Any]:
    """What Spark should give for it: what it holds, and JSON where Spark has no type."""
    row: dict[str, Any] = msgspec.to_builtins(value, builtin_types=(bytes, datetime, date))
    row["by_number"] = row.pop("byNumber")
    row["at"] = NOON.astimezone().replace(tzinfo=None)
    row["extra"] = {"note": value.extra.get("note")}
    row["either"] = '"s"' if value.number % 2 else "9"
    return row | {"pair": '[1,"p"]', "tree": {"name": "a", "below": ['{"name":"b","below":[]}']}}


def finish(frame: DataFrame, form: str, folder: Path, name: str = "") -> None:
    writer = frame.writeStream.format(form).option("checkpointLocation", str(folder / "cp"))
    writer = writer.queryName(name) if name else writer.option("path", str(folder / "out"))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)


@pytest.mark.parametrize("form", [Json[Everything](), MsgPack[Everything]()], ids=["json", "msgpack"])
def test_a_topic_reads_as_in_python_and_can_be_copied(spark: SparkSession, url: str, form: Any) -> None:
    topic = Topic("everything", form, key=int, partitions=3, timestamp=lambda value: value.at)
    copy = Topic("copy", form, key=int, partitions=3)
    with connect(url) as log:
        for number in range(6):
            headers = [("h", b"1"), ("h", None)] if number else []
            log.send(topic, number, everything(number), headers=headers)
    frame = read_topic(spark, topic, log=url)
    write_topic(frame, copy, log=url)
    with connect(url) as log:
        records = {record.key: record for record in log.read(topic)}
        copied = [(one.key, one.value, one.timestamp, one.headers) for one in log.read(copy)]
    for row in (rows := frame.collect()):
        record = records[row.key]
        assert row.value.asDict(recursive=True) == as_row(record.value)
        assert (row.partition, row.offset) == (record.partition, record.offset)
        assert row.timestamp.astimezone(UTC) == NOON
        assert [(name, value and bytes(value)) for name, value in row.headers] == list(record.headers)
    for key, *rest in copied:
        assert rest == [records[key].value, records[key].timestamp, records[key].headers]
    assert len(rows) == len(copied) == 6


def test_plain_keys_and_values_have_types_and_a_union_is_json(spark: SparkSession, url: str) -> None:
    samples: list[tuple[Any, Any, Any, Any, str, str]] = [
        (str, "k", int, -(1 << 63), "string", "bigint"),
        (int, 5, float, 0.25, "bigint", "double"),
        (UUID, ONE, bool, True, "string", "boolean"),
        (datetime, NOON, bytes, b"\x00\xff", "timestamp", "binary"),
        (str, "k", UNION, Sale(1), "string", "string"),
    ]
    for number, (key_type, key, value_type, value, key_name, value_name) in enumerate(samples):
        topic = Topic(f"plain-{number}", value_type, key=key_type, partitions=1)
        copy = Topic(f"copy-{number}", value_type, key=key_type, partitions=1)
        with connect(url) as log:
            log.send(topic, key, value)
        frame = read_topic(spark, topic, log=url)
        assert frame.dtypes[:2] == [("key", key_name), ("value", value_name)]
        write_topic(frame, copy, log=url)
        with connect(url) as log:
            assert [(record.key, record.value) for record in log.read(copy)] == [(key, value)]


def test_a_table_shows_deleted_rows_as_null_and_its_rows_without_them(spark: SparkSession, url: str) -> None:
    with connect(url) as log:
        for number in range(20):
            log.send(TOTALS, f"k{number}", Totals(1, number), Totals(2, number))
        log.send(TOTALS, "k3", None)
        log.send(TOTALS, "k4", None, Totals(9, 9))
        expected = log.rows(TOTALS)
    history = read_topic(spark, TOTALS, log=url)
    assert history.count() == 43
    assert [row.key for row in history.filter("value is null").orderBy("key").collect()] == ["k3", "k4"]
    rows = read_topic(spark, TOTALS, rows=True, log=url).collect()
    assert sorted((row.key, Totals(*row.value)) for row in rows) == sorted(expected.items())
    copy = TableTopic("copy", Totals)
    write_topic(history, copy, log=url)
    with connect(url) as log:
        assert (log.rows(copy), len(list(log.read(copy)))) == (expected, 43)


def test_a_record_that_cannot_be_read_or_held_fails_with_its_position(spark: SparkSession, url: str) -> None:
    large = Topic("large", Json[int](), partitions=1)
    with connect(url) as log:
        log.send(large, "a", 1, 1 << 63)
        sent = log.send(SALES, "a", Sale(1))
        log.log.append(TopicPartition("sales", sent.partition), to_batch([Row(b"a", b"{}", 1)]))
        with pytest.raises(Exception, match="undecodable") as plain:
            list(log.read(SALES))
    with pytest.raises(PySparkException) as raised:
        read_topic(spark, SALES, log=url).collect()
    assert str(plain.value) in str(raised.value)
    assert f"sales/{sent.partition} offset 1: value: " in str(raised.value)
    with pytest.raises(PySparkException, match=r"not-in-spark.*large/0 offset 1: value: "):
        read_topic(spark, large, log=url).collect()


def test_what_cannot_be_read_is_refused_at_once(spark: SparkSession, url: str) -> None:
    def code(session: Any = spark, topic: Any = SALES, log: str = url, **options: Any) -> str:
        with pytest.raises(TidegateError) as raised:
            read_topic(session, topic, log=log, **options)
        return raised.value.code

    assert code() == "no-log"
    connect(url).close()
    assert code() == "no-such-topic"
    assert code(log="sqlite://") == "log-in-memory"
    assert code(object()) == "spark-connect"
    assert code(rows=True) == code(topic=TOTALS, rows=True, streaming=True) == "rows-of-what"


def test_a_stream_takes_what_comes_later_and_nothing_twice(spark: SparkSession, url: str) -> None:
    with connect(url) as log:
        log.send(WORDS, "a", "one", "two")
        frame = read_topic(spark, WORDS, streaming=True, log=url)
        query = frame.writeStream.format("memory").queryName("words_seen").start()
        try:
            query.processAllAvailable()
            log.send(WORDS, "b", "three")
            query.processAllAvailable()
            log.send(WORDS, "a", "four")
            query.processAllAvailable()
        finally:
            query.stop()
    assert sorted(row.value for row in spark.table("words_seen").collect()) == ["four", "one", "three", "two"]


def test_a_table_streams_into_parquet_over_a_restart(spark: SparkSession, url: str, tmp_path: Path) -> None:
    with connect(url) as log:
        log.send(TOTALS, "a", Totals(1, 5), None)
        frame = read_topic(spark, TOTALS, streaming=True, log=url).select("key", "value", "offset")
        finish(frame, "parquet", tmp_path)
        log.send(TOTALS, "a", Totals(2, 7))
        log.send(TOTALS, "b", Totals(1, 1))
        finish(frame, "parquet", tmp_path)
        finish(frame, "parquet", tmp_path)
    rows = spark.read.parquet(str(tmp_path / "out")).orderBy("key", "offset").collect()
    found = [(row.key, row.value and Totals(*row.value)) for row in rows]
    assert found == [("a", Totals(1, 5)), ("a", None), ("a", Totals(2, 7)), ("b", Totals(1, 1))]


def test_a_checkpoint_of_another_topic_is_refused(spark: SparkSession, url: str, tmp_path: Path) -> None:
    with connect(url) as log:
        log.send(WORDS, "a", "one")
        frame = read_topic(spark, WORDS, streaming=True, log=url)
        finish(frame, "noop", tmp_path)
        log.log.delete("words")
        log.send(WORDS, "a", "other", "words")
        with pytest.raises(PySparkException, match="other-topic"):
            finish(frame, "noop", tmp_path)


def test_written_rows_lie_where_send_puts_them(spark: SparkSession, url: str) -> None:
    topics = Topic("sent", Sale, partitions=5), Topic("written", Sale, partitions=5)
    rows = [(f"k{number}", (number, 1.0)) for number in range(40)]
    frame = spark.createDataFrame(rows, "key string, value struct<cents int, share float>")
    with connect(url) as log:
        for key, value in rows:
            log.send(topics[0], key, Sale(*value))
        assert write_topic(frame.repartition(3), topics[1], log=url) is None
        sent, written = ({(one.key, one.partition, one.value) for one in log.read(two)} for two in topics)
        assert sent == written
        assert log.rows(TableTopic(MARKS.topic, bytes, key=bytes)) == {}


def test_a_frame_that_does_not_fit_is_refused_by_name(spark: SparkSession, url: str) -> None:
    frame = spark.range(1).select(lit("k").alias("key"), lit("v").alias("value"))
    cases = {
        frame.select("value"): "no column key",
        frame.withColumn("more", lit(1)): "column more",
        frame: "value is string",
        frame.selectExpr("key", "struct(2 as cents, 3 as more) as value"): "value.more",
    }
    for wrong, why in cases.items():
        with pytest.raises(ConfigError, match=why) as raised:
            write_topic(wrong, SALES, log=url)
        assert raised.value.code == "bad-frame"
    with pytest.raises(PySparkException, match=r"unencodable.*cents"):
        write_topic(frame.selectExpr("key", "struct(0.5D as share) as value"), SALES, log=url)
    with connect(url) as log:
        assert list(log.read(SALES)) == []


def test_a_streamed_write_repeats_no_micro_batch(spark: SparkSession, url: str, tmp_path: Path) -> None:
    copy = Topic("copy", str, partitions=2)

    def run() -> None:
        frame = read_topic(spark, WORDS, streaming=True, log=url)
        query = write_topic(frame, copy, log=url, checkpoint=tmp_path / "cp", trigger={"availableNow": True})
        assert query is not None
        assert query.awaitTermination(120)

    with connect(url) as log:
        log.send(WORDS, "a", "one", "two")
        run()
        for done in (tmp_path / "cp" / "commits").iterdir():
            done.unlink()  # as if Spark had died after our commit, before its own
        log.send(WORDS, "a", "three")
        run()
        assert [record.value for record in log.read(copy)] == ["one", "two", "three"]


NOTEBOOK = """
import dataclasses, msgspec
from tidegate import Topic
from tidegate.spark.topic_source import resolved_location, shipped
class Inner(msgspec.Struct, frozen=True):
    a: int
@dataclasses.dataclass
class Side:
    b: int
class Cell(msgspec.Struct, tag="cell", rename="upper"):
    inner: Inner
    side: Side
    twice: Inner = Inner(2)
    def time(self): return self.inner.a
topic = Topic("cells", Cell, timestamp=lambda cell: cell.time())
print(shipped(topic, resolved_location("sqlite:///x.db", None)).as_text())
"""


def test_types_of_a_notebook_travel_as_what_they_are_made_of() -> None:
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], capture_output=True, text=True, check=True)
    topic = Shipped.of_text(done.stdout).declared()
    value = topic.decode_value(data := b'{"type":"cell","INNER":{"a":7},"SIDE":{"b":8},"TWICE":{"a":2}}')
    assert (topic.encode_value(value), topic.event_time(value, 1)) == (data, 7)
    with pytest.raises(TidegateError, match="missing required field `b`"):
        topic.decode_value(data.replace(b'"b":8', b""))


def test_what_a_manifest_holds_of_a_type_is_enough_to_read_it() -> None:
    samples = {Json[Everything](): everything(3), MsgPack[Everything](): everything(4), UNION: Sale(1)}
    for written, value in samples.items():
        read = serde_of(msgspec.json.decode(msgspec.json.encode(written.schema())))
        found = msgspec.json.encode(read.decode(written.encode(value)))
        assert msgspec.json.decode(found) == msgspec.json.decode(msgspec.json.encode(value))
    assert [serde_of(plain.schema()) for plain in PLAIN.values()] == list(PLAIN.values())
    for serde in (Json[Sale](), serde_of(Json[Sale]().schema())):
        assert part_of(serde).type.simpleString() == "struct<cents:bigint,share:double>"


def test_windows_and_sessions_show_their_times() -> None:
    for kind, suffix in (("window", window_suffix(5000)), ("session", session_suffix(9000, 4000))):
        place = resolved_location("sqlite:///a.db", None)
        spec = Shipped(place, "log", table=True, key=PLAIN[str], value=PLAIN[int], kind=kind)
        row = {"offset": 3, "timestamp": 1, "key": b"ada" + suffix, "value": PLAIN[int].encode(2)}
        batch = pa.RecordBatch.from_pylist([row], schema=READ_SCHEMA)
        (found,) = FrameBatches(spec, spec.schema()).batch(1, batch).to_pylist()
        seconds = [value.timestamp() for name, value in found.items() if name.startswith(kind)]
        assert (found["key"], found["value"], found["partition"], found["offset"]) == ("ada", 2, 1, 3)
        assert seconds == ([5] if kind == "window" else [4, 9])


def run_app(url: str) -> None:
    app = App("shop")
    sales = app.stream(SALES)
    sales.aggregate("totals", Totals, lambda total, sale: Totals(total.sales + 1, total.cents + sale.cents))
    sales.aggregate(stores.key_value("last", Sale).without_changelog(), lambda: Sale(0), lambda _, new: new)
    with connect(url) as log, Driver(app, partitions=2, log=log.log) as driver:
        driver.send(SALES, "ada", Sale(500), Sale(700))
        driver.send(SALES, "bob", Sale(100))
        driver.run()


def test_a_store_joins_a_parquet_file(spark: SparkSession, url: str, tmp_path: Path) -> None:
    run_app(url)
    people = spark.createDataFrame([("ada", "north"), ("bob", "south")], "name string, region string")
    people.write.parquet(str(tmp_path / "people"))
    spark.read.parquet(str(tmp_path / "people")).createOrReplaceTempView("people")
    store = read_store(spark, "shop", "totals", log=url)
    assert store.columns == ["key", "value", "timestamp", "partition", "offset"]
    store.createOrReplaceTempView("totals_store")
    query = "select region, value.sales, value.cents from totals_store join people on name = key order by 1"
    assert [tuple(row) for row in spark.sql(query).collect()] == [("north", 2, 1200), ("south", 1, 100)]
    changes = read_store(spark, "shop", "totals", streaming=True, log=url)
    finish(changes, "memory", tmp_path, "changes")
    assert spark.table("changes").filter("key = 'ada'").count() >= 1


def test_unknown_apps_and_stores_are_named(spark: SparkSession, url: str) -> None:
    run_app(url)
    cases = [
        ("other", "totals", r"\[never-started\] app 'other'"),
        ("shop", "tools", r"\[no-such-store\] .* no store 'tools'  Do: its stores are: last, totals"),
        ("shop", "last", r"\[no-changelog\] store 'last' of app 'shop'"),
    ]
    for app, store, reported in cases:
        with pytest.raises(TidegateError, match=reported):
            read_store(spark, app, store, log=url)
