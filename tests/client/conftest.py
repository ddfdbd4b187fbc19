from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client import node


@pytest.fixture(autouse=True, scope="session")
def node_process() -> Iterator[None]:
    """All tests of a process share one Node."""
    yield
    node.FOLLOW.close()
