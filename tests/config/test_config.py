"""tidegate.toml < TIDEGATE_* < arguments; every mistake by name, no secret ever printed."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from rich.pretty import pretty_repr

from tidegate.config.config import Config, load_config
from tidegate.config.upgrade import UpgradeSettings
from tidegate.errors import ConfigError


def write(folder: Path, text: str | bytes) -> Path:
    file = folder / "tidegate.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def refused(folder: Path, environ: dict[str, str] | None = None, **overrides: object) -> ConfigError:
    with pytest.raises(ConfigError) as error:
        load_config(overrides, environ or {}, folder)
    assert error.value.hint
    return error.value


def test_without_a_file_the_defaults_hold_in_the_working_folder(tmp_path: Path) -> None:
    assert load_config(environ={}, folder=tmp_path) == Config(folder=tmp_path)
    config = Config()
    assert (config.app, config.log) == (None, "sqlite:///.tidegate/log.db")
    assert (config.commit_interval_ms, config.partitions) == (100, 4)
    assert config.state_dir == ".tidegate/state"
    assert config.upgrade == UpgradeSettings(mode="auto", max_removed=0.1, allow_removals=[])
    assert config.state_budget_bytes is None


def test_the_file_is_found_upward_and_the_nearest_one_counts(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    write(tmp_path, "partitions = 7")
    assert load_config(environ={}, folder=below) == Config(partitions=7, folder=tmp_path)
    write(tmp_path / "a", "partitions = 9")
    assert load_config(environ={}, folder=below) == Config(partitions=9, folder=tmp_path / "a")


def test_a_folder_of_that_name_is_no_config(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").mkdir()
    assert load_config(environ={}, folder=tmp_path) == Config(folder=tmp_path)


def test_environment_beats_the_file_and_arguments_beat_both(tmp_path: Path) -> None:
    write(tmp_path, 'partitions = 1\ncommit_interval_ms = 1\nlog = "sqlite:///file.db"')
    environ = {"TIDEGATE_COMMIT_INTERVAL_MS": "2", "TIDEGATE_LOG": "sqlite:///environ.db"}
    config = load_config({"log": "sqlite://", "partitions": None}, environ, tmp_path)
    assert (config.partitions, config.commit_interval_ms, config.log) == (1, 2, "sqlite://")


def test_sections_are_joined_and_their_values_stay_as_they_are(tmp_path: Path) -> None:
    write(
        tmp_path,
        '[settings]\nmin_cents = 5\nday = 2025-01-31\n[kafka]\n"client.id" = "a"\n[spark.conf]\nx = 1.5',
    )
    environ = {
        "TIDEGATE_SETTINGS__MAX_CENTS": "9",
        "TIDEGATE_SETTINGS__DB__HOST": "h",
        "TIDEGATE_SETTINGS__DB__PORT": "1",
        "TIDEGATE_KAFKA__BOOTSTRAP_SERVERS": "broker:9092",
        "TIDEGATE_SPARK__MASTER": "local[2]",
        "TIDEGATE_REGISTRY__URL": "http://registry:8081",
        "TIDEGATE_REGISTRY__BASIC_AUTH_USER_INFO": "ada:x",
    }
    config = load_config({"settings": {"min_cents": 7}}, environ, tmp_path)
    db = {"host": "h", "port": "1"}
    assert config.settings == {"min_cents": 7, "max_cents": "9", "day": date(2025, 1, 31), "db": db}
    assert config.kafka == {"client.id": "a", "bootstrap.servers": "broker:9092"}
    assert config.registry == {"url": "http://registry:8081", "basic.auth.user.info": "ada:x"}
    assert config.spark == {"conf": {"x": 1.5}, "master": "local[2]"}


def test_foreign_variables_are_left_alone_and_near_ones_are_not(tmp_path: Path) -> None:
    environ = {"TIDEGATE_SOAK": "1", "TIDEGATE_TOKEN": "t", "OTHER_LOG": "x", "TIDEGATE_LOG": "sqlite://"}
    assert load_config(environ=environ, folder=tmp_path).log == "sqlite://"
    error = refused(tmp_path, {"TIDEGATE_COMIT_INTERVAL_MS": "5"})
    assert (error.code, "TIDEGATE_COMMIT_INTERVAL_MS" in error.hint) == ("unknown-setting", True)
    assert refused(tmp_path, {"TIDEGATE_LOG__URL": "x"}).code == "unknown-setting"


@pytest.mark.parametrize(
    ("text", "code", "reported"),
    [
        ("partitons = 4", "unknown-setting", "partitons"),
        ("folder = '/'", "unknown-setting", "folder"),
        ("[kafak]\na = 1", "unknown-setting", "kafak"),
        ("partitions = 'four'", "bad-setting", "partitions"),
        ("partitions = 0", "bad-setting", "partitions"),
        ("partitions = 10001", "bad-setting", "partitions"),
        ("commit_interval_ms = 1.5", "bad-setting", "commit_interval_ms"),
        ("commit_interval_ms = true", "bad-setting", "commit_interval_ms"),
        ("commit_interval_ms = '100'", "bad-setting", "commit_interval_ms"),
        ("state_budget_bytes = 0", "bad-setting", "state_budget_bytes"),
        ("state_budget_bytes = '50 GB'", "bad-setting", "state_budget_bytes"),
        ("upgrade = 'sometimes'", "bad-setting", "upgrade"),
        ("log = ''", "bad-setting", "log"),
        ("settings = 5", "bad-setting", "settings"),
        ("kafka = 'broker'", "bad-setting", "kafka"),
        ("registry = 'http://registry'", "bad-setting", "registry"),
        ("partitions = ]", "broken-config", "line 1"),
        (b"\xff\xfe", "broken-config", "TOML"),
        ("a = " + "[" * 100_000, "broken-config", "TOML"),
    ],
)
def test_a_mistake_in_the_file_is_reported_with_the_file(
    tmp_path: Path, text: str | bytes, code: str, reported: str
) -> None:
    file = write(tmp_path, text)
    error = refused(tmp_path)
    assert error.code == code
    assert str(file) in error.message
    assert reported in error.message


@pytest.mark.parametrize(
    ("environ", "reported"),
    [
        ({"TIDEGATE_PARTITIONS": "many"}, "TIDEGATE_PARTITIONS"),
        ({"TIDEGATE_LOG": ""}, "TIDEGATE_LOG"),
        ({"TIDEGATE_SETTINGS": "{}"}, "TIDEGATE_SETTINGS"),
        ({"TIDEGATE_KAFKA__": "x"}, "TIDEGATE_KAFKA__"),
        ({"TIDEGATE_SETTINGS__A": "1", "TIDEGATE_SETTINGS__A__B": "2"}, "TIDEGATE_SETTINGS__A__B"),
    ],
)
def test_a_mistake_in_the_environment_is_reported_with_the_variable(
    tmp_path: Path, environ: dict[str, str], reported: str
) -> None:
    error = refused(tmp_path, environ)
    assert (error.code, error.message.startswith(reported)) == ("bad-setting", True)


def test_a_mistake_in_the_arguments_is_reported_too(tmp_path: Path) -> None:
    assert refused(tmp_path, partitions="4").code == "bad-setting"
    assert refused(tmp_path, nonsense=1).code == "unknown-setting"


def test_a_working_folder_that_is_gone_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError) as error:
        load_config(environ={})
    assert error.value.code == "no-folder"


def test_nothing_that_may_be_secret_is_ever_printed(tmp_path: Path) -> None:
    canary = "c4n4ry"
    sections = {
        name: {"password": canary, "nested": {"key": canary}}
        for name in ("kafka", "registry", "settings", "spark")
    }
    config = load_config({**sections, "log": f"kafka://user:{canary}@broker:9092"}, {}, tmp_path)
    for text in (repr(config), str(config), f"{config}", pretty_repr(config, max_width=20)):
        assert canary not in text
        assert "password" in text
        assert "broker:9092" in text
    write(tmp_path, f"settings = '{canary}'")
    assert canary not in str(refused(tmp_path))
    assert canary not in str(refused(tmp_path, {"TIDEGATE_PARTITIONS": canary}))


def test_upgrades_are_set_by_a_word_or_by_a_section(tmp_path: Path) -> None:
    write(tmp_path, 'upgrade = "ask"')
    assert load_config(environ={}, folder=tmp_path).upgrade == UpgradeSettings(mode="ask")
    environ = {"TIDEGATE_UPGRADE__MAX_REMOVED": "0.5", "TIDEGATE_UPGRADE__ALLOW_REMOVALS": "a, b"}
    both = UpgradeSettings(mode="ask", max_removed=0.5, allow_removals=["a", "b"])
    assert load_config(environ=environ, folder=tmp_path).upgrade == both
    write(tmp_path, '[upgrade]\nmax_removed = 0.25\nallow_removals = ["totals"]')
    found = load_config({"upgrade": "auto"}, {"TIDEGATE_UPGRADE": "ask"}, tmp_path).upgrade
    assert found == UpgradeSettings(mode="auto", max_removed=0.25, allow_removals=["totals"])


@pytest.mark.parametrize(
    "text",
    ["max_removed = 2", "max_removed = '0.1'", "mode = 'apply'", "removals = ['a']", "allow_removals = 'a'"],
)
def test_a_mistake_in_the_section_of_upgrades_is_named(tmp_path: Path, text: str) -> None:
    write(tmp_path, f"[upgrade]\n{text}")
    error = refused(tmp_path)
    assert error.code == "bad-setting"
    assert text.partition(" ")[0] in str(error)
