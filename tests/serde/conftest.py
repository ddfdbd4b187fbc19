"""A registry for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.serde.registry_server import RegistryServer

from tidegate.serde.registry_settings import use_registry


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    """A registry that is in force until the test ends."""
    with RegistryServer() as running:
        before = use_registry(running.settings)
        yield running
        use_registry(before)
