from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.models.app import EVENTS, Started, StepDone, workflows

from tidegate.testing import Driver, ModelView


@pytest.fixture
def d() -> Iterator[Driver]:
    with Driver(workflows(), partitions=2) as made:
        yield made


@pytest.fixture
def model(d: Driver) -> ModelView:
    d.send(EVENTS, "w1", Started("Ship"), StepDone("pack", 1.5))
    d.run()
    return d.model("workflows")
