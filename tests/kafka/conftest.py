"""What the tests on a real broker share. Whatever starts one is slow."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kafka.bench import KafkaBench, KafkaGround
from tests.kafka.own_names import OwnNames
from tests.repetitions import repeated
from tests.runtime.fleet import LINES, Fleet

from tidegate.testing.broker import KafkaCluster

OpenLog = Callable[..., OwnNames]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session", autouse=True)
def _with_kafka(kafka_jars: None) -> None:
    """Also for tests that start brokers of their own."""


@pytest.fixture
def prefix() -> str:
    """What the names of this test begin with."""
    return f"{uuid.uuid4().hex[:8]}-"


@pytest.fixture
def open_own(kafka: KafkaCluster, prefix: str) -> Iterator[OpenLog]:
    """Opens logs of this test's own names, any number of them on the same topics."""
    opened: list[OwnNames] = []

    def open_own(**options: Any) -> OwnNames:
        opened.append(OwnNames(kafka.bootstrap, prefix, **options))
        return opened[-1]

    yield open_own
    for log in opened:
        log.close()


@pytest.fixture
def fleet(open_own: OpenLog, tmp_path: Path) -> Fleet:
    """The word count with nothing sent yet but the line that `expected` counts too."""
    made = Fleet(open_own(), tmp_path)
    made.connection.send(LINES, "warm", "up")
    return made


@pytest.fixture
def ground(kafka: KafkaCluster, folder: Path, prefix: str) -> KafkaGround:
    """For tests of state with processes of their own."""
    return KafkaGround(folder, kafka.bootstrap, prefix)


@pytest.fixture
def open_bench(ground: KafkaGround) -> Iterator[Callable[..., KafkaBench]]:
    """For tests of state with more than one partition."""
    opened: list[KafkaBench] = []

    def open_bench(partitions: int) -> KafkaBench:
        opened.append(ground.bench(partitions))
        return opened[-1]

    yield open_bench
    for bench in opened:
        bench.close()


@pytest.fixture
def bench(open_bench: Callable[..., KafkaBench]) -> KafkaBench:
    return open_bench(partitions=1)


@pytest.fixture
def small_pages(ground: KafkaGround) -> Iterator[None]:
    with ground.small_pages():
        yield


@pytest.fixture
def kills() -> int:
    """How often a life is ended that is to be ended again and again."""
    return repeated(10, soak=100)
