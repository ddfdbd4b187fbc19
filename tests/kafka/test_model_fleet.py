"""As tests/server/test_model_fleet.py, on Kafka."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from tests.server.model_fleet import run_fleet

from tidegate.config.config import load_config
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.testing.broker import KafkaCluster


@pytest.mark.slow
@pytest.mark.soak(only="takes three minutes")
def test_frames_chain_and_nobody_is_reset_while_servers_and_slots_are_killed(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With a broker of its own: the topics have fixed names."""
    with KafkaCluster(tmp_path_factory.mktemp("models")) as kafka:
        config = load_config({"log": kafka.url}, environ={}, folder=tmp_path)
        with closing(open_log(LogLocation.of(config))) as log:
            run_fleet(kafka.url, log, tmp_path)
