"""Where a log is, by its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.config.config import Config, load_config
from tidegate.errors import ConfigError
from tidegate.log.location import LogLocation

TOML = """
log = "kafka://broker:9092"
[kafka]
"security.protocol" = "SASL_SSL"
sasl.username = "ada"
sasl.password = { env = "WORD_OF_ADA" }
[kafka.producer]
"linger.ms" = 5
[kafka.topics]
replication.factor = 3
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "tidegate.toml").write_text(TOML)
    return load_config(environ={"TIDEGATE_KAFKA__PRODUCER__COMPRESSION_TYPE": "zstd"}, folder=tmp_path)


def test_names_may_go_without_quotes_and_secrets_come_from_the_environment(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORD_OF_ADA", "canary-word")
    place = LogLocation.of(config)
    assert place.kafka == {
        "security.protocol": "SASL_SSL",
        "sasl.username": "ada",
        "sasl.password": "canary-word",
        "producer": {"linger.ms": 5, "compression.type": "zstd"},
        "topics": {"replication.factor": 3},
    }
    assert "canary-word" not in repr(place) + repr(config)


def test_a_secret_that_is_not_there_is_missed_by_name(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WORD_OF_ADA", raising=False)
    with pytest.raises(ConfigError, match=r"missing-variable.*sasl\.password from the variable WORD_OF_ADA"):
        LogLocation.of(config)


def test_a_log_in_a_file_needs_no_secrets_of_kafka(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORD_OF_ADA", raising=False)
    assert LogLocation.of(config, "sqlite:///log.db") == LogLocation("sqlite:///log.db", config.folder)
