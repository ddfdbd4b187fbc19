"""docs/kafka.md names only settings that librdkafka or tidegate know."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tidegate.config.config import Config, load_config
from tidegate.errors import ConfigError
from tidegate.log.kafka.clients import RESERVED, RESERVED_FOR_TOPICS, Clients
from tidegate.log.location import LogLocation
from tidegate.log.open import kafka_servers

PAGE = (Path(__file__).parents[2] / "docs" / "kafka.md").read_text()
BLOCKS = re.findall(r"^```toml[^\n]*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
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
    # There are no such brokers: how long a client looks for them is not what is tested.
    monkeypatch.setattr("tidegate.log.kafka.clients.CONNECT_SECONDS", 0.01)
    place = LogLocation.of(as_config(block, tmp_path))
    assert kafka_servers(place.url)
    assert place.kafka.get(PROTOCOL, "SSL") in ("SSL", "SASL_SSL")
    clients = made_with(place.kafka)
    assert clients.producer({}) is not None
    clients.close()


def test_a_setting_that_librdkafka_does_not_know_is_reported_by_name() -> None:
    with pytest.raises(ConfigError, match=r"\[kafka\] ssl\.nonsense cannot be used"):
        made_with({"ssl.nonsense": "a-word"})


def test_a_missing_file_is_reported_with_its_setting() -> None:
    missing = {PROTOCOL: "SSL", "ssl.ca.location": "nowhere.pem"}
    with pytest.raises(ConfigError, match=r"\[kafka\] ssl\.ca\.location cannot be used.*on every host"):
        assert Clients("127.0.0.1:9", missing).admin


def test_what_cannot_be_set_is_listed() -> None:
    assert {name for name in RESERVED | RESERVED_FOR_TOPICS if f"`{name}`" not in PAGE} == set()


def variables() -> list[tuple[str, str, str]]:
    """Those that the page names, each with the setting that it stands for and whose it is."""
    named = re.findall(r"`(TIDEGATE_KAFKA__[A-Z_]+)` for\s+`([a-z.]+)`( of writers)?", PAGE)
    return [(variable, setting, "producer" if of else "") for variable, setting, of in named]


def test_the_page_names_what_each_variable_sets() -> None:
    assert len(variables()) >= 2
    assert {variable for variable, _, _ in variables()} == set(
        re.findall(r"TIDEGATE_KAFKA__[A-Z_]+[A-Z]", PAGE)
    )


@pytest.mark.parametrize(("variable", "setting", "part"), variables())
def test_the_variables_of_the_page_set_what_it_names(
    variable: str, setting: str, part: str, tmp_path: Path
) -> None:
    """The environment goes before the file, and librdkafka knows the name."""
    section = f"kafka.{part}" if part else "kafka"
    (tmp_path / "tidegate.toml").write_text(f'log = "kafka://broker:9092"\n[{section}]\n"{setting}" = "4"\n')
    without, config = (load_config(environ=environ, folder=tmp_path) for environ in ({}, {variable: "5"}))
    found = [LogLocation.of(one).kafka for one in (without, config)]
    assert [str((kafka[part] if part else kafka)[setting]) for kafka in found] == ["4", "5"]
    made_with(found[1]).close()
    misspelt = {part: {f"{setting}x": "5"}} if part else {f"{setting}x": "5"}
    with pytest.raises(ConfigError, match=re.escape(f"{setting}x")):
        made_with(misspelt).producer({})
