"""What several folders of tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidegate.testing.broker import KafkaCluster


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """One real broker for the whole run, started at its first use. Others use it too: name topics, groups and
    transactional ids for your test, and do not kill it."""
    with KafkaCluster(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster
