"""`app.start(spark, sinks=...)`: databases are filled while an app runs, and their troubles are warnings."""

from __future__ import annotations

import importlib
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.spark.test_running import EXAMPLES, Start, counted, finished, lines
from tests.waiting import wait_for

from tidegate.config.config import Config, load_config
from tidegate.connect.connection import Connection
from tidegate.errors import ConfigError

SECTIONS = {
    "good": {"url": "sqlite:///good.db", "tables": ["word-counts"]},
    "bad": {"url": "sqlite:///missing/bad.db", "tables": ["word-counts"]},
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    monkeypatch.syspath_prepend(str(EXAMPLES / "wordcount"))
    yield load_config({"log": "sqlite:///log.db", "sinks": SECTIONS}, environ={}, folder=tmp_path)
    sys.modules.pop("wordcount", None)


def rows(file: Path) -> dict[str, int]:
    with closing(sqlite3.connect(file)) as database:
        return dict(database.execute("SELECT key, value FROM word_counts").fetchall())


def test_a_run_fills_its_sinks_and_reports_one_that_fails(
    start: Start, log: Connection, tmp_path: Path
) -> None:
    """A run that ends when it has caught up ends when its sinks have, too."""
    sent = lines(40)
    log.send(importlib.import_module("wordcount").LINES, *sent[0])
    for key, line in sent[1:]:
        log.send(importlib.import_module("wordcount").LINES, key, line)
    with pytest.raises(ConfigError, match="other"):
        start("wordcount:app", sinks=["other"])
    run = start("wordcount:app", sinks=["good", "bad"])
    wait_for(lambda: any(warned.code == "database-failed" for warned in run.view.warnings))
    assert any("sink 'bad'" in warned.message for warned in run.view.warnings)
    wait_for(lambda: (tmp_path / "good.db").exists() and rows(tmp_path / "good.db") == counted(sent))
    run.stop()
    finished(run)
    log.send(importlib.import_module("wordcount").LINES, "k", "one more line")
    finished(start("wordcount:app", sinks=["good"], until_caught_up=True))
    assert rows(tmp_path / "good.db") == counted([*sent, ("k", "one more line")])
