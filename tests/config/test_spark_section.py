"""[spark] of tidegate.toml: a key that does not exist is an error by name, and names need no quotes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidegate.cli.main import app
from tidegate.config.config import load_config
from tidegate.config.spark import SparkSettings, spark_settings
from tidegate.errors import ConfigError


def loaded(folder: Path, text: str) -> SparkSettings:
    (folder / "tidegate.toml").write_text(text)
    return spark_settings(load_config(environ={}, folder=folder).spark)


def test_without_the_section_spark_is_local(tmp_path: Path) -> None:
    assert loaded(tmp_path, "") == SparkSettings(master="local[*]", conf={})


@pytest.mark.parametrize("name", ['"spark.executor.memory"', "spark.executor.memory"])
def test_names_of_spark_may_be_written_with_and_without_quotes(tmp_path: Path, name: str) -> None:
    text = f'[spark]\nmaster = "local[2]"\n[spark.conf]\n{name} = "4g"\n'
    assert loaded(tmp_path, text) == SparkSettings("local[2]", {"spark.executor.memory": "4g"})


def test_values_are_written_as_spark_reads_them(tmp_path: Path) -> None:
    text = '[spark.conf]\n"spark.ui.enabled" = true\n"spark.executor.cores" = 2\n'
    assert loaded(tmp_path, text).conf == {"spark.ui.enabled": "true", "spark.executor.cores": "2"}


@pytest.mark.parametrize(
    ("section", "code"),
    [
        ({"mastr": "local[2]"}, "unknown-setting"),
        ({"conf": "spark.executor.memory=4g"}, "bad-setting"),
        ({"conf": {"spark.executor.memory": ["4g"]}}, "bad-setting"),
        ({"master": 7}, "bad-setting"),
        ({"master": ""}, "bad-setting"),
    ],
)
def test_a_mistake_is_refused_by_name(section: dict[str, Any], code: str) -> None:
    with pytest.raises(ConfigError, match=r"\[spark\]") as refused:
        spark_settings(section)
    assert refused.value.code == code
    assert refused.value.hint


def test_run_and_doctor_refuse_it_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tidegate.toml").write_text('[spark]\nmastr = "local[2]"\n')
    monkeypatch.chdir(tmp_path)
    assert "did you mean master?" in CliRunner().invoke(app, ["run", "nothing:app"]).output
    assert "did you mean master?" in CliRunner().invoke(app, ["doctor"]).output
