"""`tidegate sink`, its section of tidegate.toml, and `tidegate doctor`."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run, run
from tests.models.app import EVENTS, Started
from tests.postgres import PASSWORD, Postgres
from tests.sinks.app import TOTALS, Total, shop
from tests.waiting import wait_for

from tidegate import App, TableTopic
from tidegate.config.config import Config, load_config
from tidegate.errors import ConfigError
from tidegate.log.sqlite.log import SqliteLog
from tidegate.models import from_columns
from tidegate.sinks.layout import TableLayout
from tidegate.sinks.settings import checked_settings, sink_settings
from tidegate.sinks.sources import find_sources
from tidegate.testing import Driver

__all__ = ["run"]

TOML = """
log = "sqlite:///log.db"
app = "tests.sinks.app:shop"

[sinks.reports]
url = "sqlite:///reports.db"
models = ["workflows"]
tables = ["customer-totals"]
"""


@pytest.fixture
def d(tmp_path: Path) -> Iterator[Driver]:
    """An app whose log is that of tidegate.toml in the working folder."""
    (tmp_path / "tidegate.toml").write_text(TOML)
    with closing(SqliteLog(tmp_path / "log.db")) as log, Driver(shop(), partitions=2, log=log) as made:
        made.send(TOTALS, "ada", Total(1))
        made.send(EVENTS, "w1", Started("Ship"))
        made.run()
        yield made


def rows(file: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(file)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(statement).fetchall()


def test_a_sink_of_the_file_is_filled(run: Run, d: Driver, tmp_path: Path) -> None:
    out = run("sink", "--until-caught-up").out
    assert out == "reports: 2 records, 2 rows written, 0 deleted\n"
    [total] = rows(tmp_path / "reports.db", "SELECT * FROM customer_totals")
    [row] = rows(tmp_path / "reports.db", "SELECT * FROM workflows")
    assert (total["key"], total["orders"]) == ("ada", 1)
    assert from_columns(dict(row)).token("w1") == d.model("workflows").token("w1")
    d.send(TOTALS, "ada", None)
    last = run("sink", "reports", "--until-caught-up", "--json").lines[-1]
    counts = {"records": 1, "written": 0, "deleted": 1, "swept": 0, "skipped": 0, "behind": 0}
    assert last == {"sink": "reports", **counts}
    assert rows(tmp_path / "reports.db", "SELECT * FROM customer_totals") == []


def test_a_database_can_be_named_by_its_url(run: Run, d: Driver, tmp_path: Path) -> None:
    run("sink", "sqlite:///other.db", "--model", "workflows", "--until-caught-up")
    assert len(rows(tmp_path / "other.db", "SELECT * FROM workflows")) == 1
    notes = run("sink", "sqlite:///more.db", "--table", "customer-totals", "--until-caught-up").err
    assert "reading customer-totals/0 from the start: it was not read before" in notes


@pytest.mark.slow
def test_sigterm_finishes_the_transaction_and_ends(d: Driver, tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-m", "tidegate", "sink", "reports", "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        wait_for(lambda: count(tmp_path / "reports.db") == 1)
        d.send(TOTALS, "bob", Total(2))
        wait_for(lambda: count(tmp_path / "reports.db") == 2)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate()
    assert process.returncode == 0
    assert json.loads(out.splitlines()[-1])["records"] == 3


def count(file: Path) -> int:
    try:
        return int(rows(file, "SELECT count(*) FROM customer_totals")[0][0])
    except sqlite3.OperationalError:
        return -1


@pytest.mark.parametrize(
    ("section", "code", "message"),
    [
        ('url = "sqlite:///r.db"', "bad-setting", "neither models nor tables"),
        ('models = ["workflows"]', "bad-setting", "url"),
        ('url = "sqlite://"\nmodels = ["workflows"]', "bad-setting", "no file"),
        ('url = "sqlite:///log.db"\nmodels = ["workflows"]', "bad-setting", "the log itself"),
        ('url = "mysql://me:hidden@host/db"\nmodels = ["workflows"]', "bad-setting", "mysql"),
        ('url = "hidden word"\nmodels = ["workflows"]', "bad-setting", "not the URL of a database"),
        ('url = "sqlite:///r.db"\nmodels = ["workflows"]\nschema = "main"', "bad-setting", "schema"),
        ('url = "sqlite:///r.db"\nmodels = ["workflows"]\nprefix = "a; DROP TABLE"', "bad-setting", "prefix"),
        ('url = "sqlite:///r.db"\nmodels = ["workflows"]\nmodel = 1', "bad-setting", "model"),
        ('url = { env = "NO_SUCH_URL" }\nmodels = ["workflows"]', "missing-variable", "NO_SUCH_URL"),
        ('url = "sqlite:///r.db"\nmodels = ["nobody"]', "no-such-model", "nobody"),
        ('url = "sqlite:///r.db"\ntables = ["nothing"]', "no-such-table", "nothing"),
        ('url = "sqlite:///r.db"\ntables = ["stock"]\nprefix = "sqlite_"', "bad-table", "sqlite_stock"),
        (f'url = "sqlite:///r.db"\nmodels = ["workflows"]\nprefix = "{"x" * 40}"', "", ""),
    ],
)
def test_settings_that_cannot_be_used_are_refused_by_name(
    run: Run, d: Driver, tmp_path: Path, section: str, code: str, message: str
) -> None:
    (tmp_path / "tidegate.toml").write_text(TOML.split("[sinks", maxsplit=1)[0] + f"[sinks.r]\n{section}\n")
    ran = run("sink", "r", "--until-caught-up", "--json", code=1 if code else 0)
    if code:
        error = ran.json["error"]
        assert error["code"] == code
        assert message in error["message"]
    assert "hidden" not in ran.out + ran.err


def test_a_sink_that_is_not_there_is_refused(run: Run, d: Driver, tmp_path: Path) -> None:
    assert run("sink", "other", "--json", code=1).json["error"]["code"] == "no-such-sink"
    assert run("sink", "reports", "--model", "x", "--json", code=1).json["error"]["code"] == "bad-option"
    (tmp_path / "tidegate.toml").write_text('log = "sqlite:///log.db"')
    assert run("sink", "--json", code=1).json["error"]["code"] == "no-such-sink"


def test_a_model_of_two_apps_needs_the_name_of_one(d: Driver) -> None:
    other = App("other")
    other.model("workflows", source=EVENTS, initial=dict)(lambda state, _: state)
    settings = checked_settings("here", {"url": "sqlite:///r.db", "models": ["workflows"]})
    with Driver(other, log=d.log) as second:
        second.run()
        with pytest.raises(ConfigError, match="other, shop") as caught:
            find_sources(d.log, settings, None)
        assert caught.value.code == "which-app"
        [source] = find_sources(d.log, settings, shop().build())
        assert source.topic == "shop-workflows-changelog"


def test_a_field_with_a_name_that_is_too_long_is_refused() -> None:
    from msgspec import defstruct

    topic: TableTopic[str, Any] = TableTopic("long", defstruct("Long", [("x" * 64, int)]))
    with pytest.raises(ConfigError) as caught:
        TableLayout(topic)
    assert caught.value.code == "bad-column"


def test_settings_come_from_the_environment_too_and_are_never_shown(tmp_path: Path) -> None:
    url = "postgresql+psycopg://me:hidden@host/db"
    (tmp_path / "tidegate.toml").write_text('[sinks.reports]\nmodels = ["workflows"]\n')
    config: Config = load_config({}, {"TIDEGATE_SINKS__REPORTS__URL": url}, tmp_path)
    settings = sink_settings(config, "reports")
    assert (settings.url, settings.models) == (url, ["workflows"])
    assert "hidden" not in repr(settings) + repr(config)


def doctor_of(run: Run) -> dict[str, Any]:
    checks = run("doctor", "--json", code=1).lines[0]["checks"]
    found: dict[str, Any] = next(one for one in checks if one["name"] == "sink reports")
    return found


@pytest.mark.slow
def test_doctor_connects_and_shows_no_password(
    run: Run, d: Driver, tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_SPARK__MASTER", "")  # so that it always ends with 1
    monkeypatch.setenv("TIDEGATE_SINKS__REPORTS__URL", postgres.url)
    found = doctor_of(run)
    assert (found["ok"], found["found"].split()[0]) == (True, "PostgreSQL")
    assert PASSWORD not in str(found)
    wrong = postgres.url.replace(PASSWORD, "a-wrong-password")
    monkeypatch.setenv("TIDEGATE_SINKS__REPORTS__URL", wrong)
    found = doctor_of(run)
    assert (found["ok"], found["code"]) == (False, "database-failed")
    assert "password authentication failed" in found["found"]
    assert "a-wrong-password" not in str(found)
    ran = run("sink", "reports", "--json", code=1)
    assert ran.json["error"]["code"] == "database-failed"
    assert "a-wrong-password" not in ran.out + ran.err
