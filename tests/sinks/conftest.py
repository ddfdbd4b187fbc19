"""Databases for tests of sinks: a file of SQLite, and a schema of one real PostgreSQL per process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.needs import missing_for_postgres
from tests.postgres import Postgres
from tests.sinks.copies import Copies

from tidegate.testing import Driver

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One cluster for all tests of a process; it starts within about a second."""
    if reason := missing_for_postgres():
        pytest.skip(reason)
    with Postgres() as made:
        yield made


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The settings of a sink that name an empty database: `url`, and `schema` where there are schemas."""
    if request.param == "sqlite":
        return {"url": f"sqlite:///{tmp_path}/copies.db"}
    cluster: Postgres = request.getfixturevalue("postgres")
    schema = f"test_{next(_numbers)}"
    with cluster.connect() as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    return {"url": cluster.url, "schema": schema}


MakeCopies = Callable[[Driver], Copies]


@pytest.fixture
def copies_of(place: dict[str, str]) -> Iterator[MakeCopies]:
    """Makes the copies of a driver's tables and models in this database."""
    made: list[Copies] = []

    def make(driver: Driver) -> Copies:
        made.append(Copies(driver, place))
        return made[-1]

    yield make
    for one in made:
        one.close()
