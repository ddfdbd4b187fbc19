"""Values of which any bytes are valid are decoded when a step uses them: a count does not."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate import App, Json, SerdeError, TableTopic, Topic
from tidegate.dsl.stream import Stream
from tidegate.serde.plain import BytesSerde
from tidegate.testing.driver import Driver

RAW = TableTopic("raw", bytes)
COUNTS = TableTopic("counts", int)
TEXTS = Topic("texts", str)
SENT: list[bytes | None] = [b"a", b"", b"\xff", b"a", b"bc", b"d"] * 4


def counted(stream: Stream[str, bytes]) -> None:
    stream.count("counts").to(COUNTS)


def filtered(stream: Stream[str, bytes]) -> None:
    stream.filter(bool).map(bytes.hex).to(TEXTS)


def outcome(build: Any, values: list[bytes | None], *, batches: bool) -> list[Any]:
    app = App("app")
    build(app.stream(RAW))
    with Driver(app, batches=batches) as driver:
        for number, value in enumerate(values):
            driver.send(RAW, f"k{number % 3}", value)
        driver.run()
        [task] = driver._tasks()
        assert (task.batches_taken_apart, task.records) == (0, len(values))
        found: list[Any] = driver.records(COUNTS if build is counted else TEXTS)
        return [(record.key, record.value) for record in found]


@pytest.mark.parametrize("values", [SENT, [*SENT, None]], ids=["values", "a null among them"])
@pytest.mark.parametrize("build", [counted, filtered])
def test_both_paths_do_the_same_with_bytes(build: Any, values: list[bytes | None]) -> None:
    if build is filtered:
        values = [value for value in values if value is not None]
    found = outcome(build, values, batches=True)
    assert found == outcome(build, values, batches=False)
    assert len(found) == (24 if build is counted else 20)


class Lenient(Json[int]):
    """A user's serde that is derived from ours, and takes what it cannot read for nothing."""

    def decode(self, data: bytes) -> Any:
        try:
            return super().decode(data)
        except SerdeError:
            return None


def test_a_value_that_a_users_serde_takes_for_nothing_is_not_counted() -> None:
    def outcome(*, batches: bool) -> tuple[list[Any], int]:
        app = App("app")
        app.stream(TableTopic("raw", Lenient())).count("counts").to(COUNTS)
        with Driver(app, batches=batches) as driver:
            for value in (b"1", b"x", b"2") * 8:
                driver.send(RAW, "k", value)
            driver.run()
            [task] = driver._tasks()
            return [record.value for record in driver.records(COUNTS)], task.null_values.count

    assert outcome(batches=True) == outcome(batches=False) == (list(range(1, 17)), 8)


def test_a_count_decodes_no_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("nobody uses the value")

    monkeypatch.setattr(BytesSerde, "decode", refuse)
    monkeypatch.setattr(BytesSerde, "decode_many", refuse)
    assert outcome(counted, SENT, batches=True)[-1] == ("k2", 8)
