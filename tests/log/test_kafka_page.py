"""docs/kafka.md says nothing that librdkafka or our own settings do not know."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tidegate.config import Config, load_config
from tidegate.errors import ConfigError
from tidegate.log.kafka.clients import OURS, Clients
from tidegate.log.open import kafka_servers
from tidegate.log.place import LogPlace

PAGE = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text()
BLOCKS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PROTOCOL = "security.protocol"


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in re.findall(r'env = "(\w+)"', PAGE):
        monkeypatch.setenv(name, "a-word")


def as_config(block: str, folder: Path) -> Config:
    (folder / "tidegate.toml").write_text(block)
    return load_config(environ={}, folder=folder)


def made_with(kafka: dict[str, Any]) -> Clients:
    """One client of each kind, as a log makes them. Files that only lie on your hosts are not opened."""
    clients = Clients("", {"bootstrap.servers": "127.0.0.1:9", **kafka, PROTOCOL: "PLAINTEXT"})
    assert clients.admin is not None
    clients.consumer().close()
    assert clients.replicas
    return clients


def test_the_page_has_settings() -> None:
    assert len(BLOCKS) >= 5


@pytest.mark.parametrize("block", BLOCKS)
def test_every_setting_of_the_page_is_known(
    block: str, tmp_path: Path, secrets: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.log.kafka.clients.CONNECT_SECONDS", 0.01)
    place = LogPlace.of(as_config(block, tmp_path))
    assert kafka_servers(place.url)
    assert place.kafka.get(PROTOCOL, "SSL") in ("SSL", "SASL_SSL")
    clients = made_with(place.kafka)
    assert clients.producer({}) is not None
    clients.close()


def test_a_setting_that_librdkafka_does_not_know_is_told_by_name() -> None:
    with pytest.raises(ConfigError, match=r"\[kafka\] ssl\.nonsense cannot be used"):
        made_with({"ssl.nonsense": "a-word"})


def test_a_file_that_is_not_there_is_told_by_its_setting() -> None:
    missing = {PROTOCOL: "SSL", "ssl.ca.location": "nowhere.pem"}
    with pytest.raises(ConfigError, match=r"\[kafka\] ssl\.ca\.location cannot be used.*on every host"):
        assert Clients("127.0.0.1:9", missing).admin


def test_what_cannot_be_set_is_listed() -> None:
    assert {name for name in OURS if f"`{name}`" not in PAGE} == set()


@pytest.mark.parametrize("variable", sorted(set(re.findall(r"TIDEGATE_KAFKA__[A-Z_]+[A-Z]", PAGE))))
def test_the_variables_of_the_page_set_something(variable: str, tmp_path: Path) -> None:
    config = load_config(environ={variable: "5", "TIDEGATE_LOG": "kafka://broker:9092"}, folder=tmp_path)
    made_with(LogPlace.of(config).kafka).close()
