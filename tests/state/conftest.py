"""What the tests of state share. Many of them run on Kafka too, where tests/kafka has a `ground` for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.repetitions import repeated
from tests.state.bench import Bench
from tests.state.ground import Ground, InMemory


@pytest.fixture
def ground(folder: Path) -> Ground:
    """For tests with processes of their own."""
    return Ground(folder)


@pytest.fixture
def open_bench(folder: Path) -> Iterator[Callable[..., Bench]]:
    """For tests with more than one partition."""
    opened: list[Bench] = []

    def open_bench(partitions: int) -> Bench:
        opened.append(InMemory(folder).bench(partitions))
        return opened[-1]

    yield open_bench
    for bench in opened:
        bench.close()


@pytest.fixture
def bench(folder: Path) -> Iterator[Bench]:
    bench = InMemory(folder).bench()
    yield bench
    bench.close()


@pytest.fixture
def small_pages(ground: Ground) -> Iterator[None]:
    with ground.small_pages():
        yield


@pytest.fixture
def kills() -> int:
    """How often a life is ended that is to be ended again and again."""
    return repeated(20, soak=200)
