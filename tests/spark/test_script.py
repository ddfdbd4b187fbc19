"""`python shop.py` with `app.run()` at its end runs the app: executors import it by the name of the file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate import App, ConfigError, TableTopic, Topic, connect
from tidegate.load import load_app
from tidegate.spark.runnable import name_of

SCRIPT = """\
from tidegate import App, TableTopic, Topic

LINES = Topic("lines", str)
COUNTS = TableTopic("counts", int)
app = App("shop")
app.stream(LINES).count("counted").to(COUNTS)

{ending}
"""
PLAIN = "app.run(until_caught_up=True, slots=1)"
GUARDED = 'if __name__ == "__main__":\n    app.run(until_caught_up=True, slots=1)'


def started(folder: Path) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
    command = [sys.executable, "shop.py"]
    return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_script_that_ends_with_app_run_counts_its_lines(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SCRIPT.format(ending=PLAIN))
    lines = Topic("lines", str, partitions=1)
    with connect("sqlite:///.tidegate/log.db", folder=tmp_path) as log:
        log.send(lines, "ada", "a", "b")
        log.send(lines, "bob", "c")
    done = started(tmp_path)
    assert done.returncode == 0, done.stderr
    with connect("sqlite:///.tidegate/log.db", folder=tmp_path) as log:
        assert log.rows(TableTopic("counts", int)) == {"ada": 2, "bob": 1}


@pytest.mark.parametrize("ending", [PLAIN, GUARDED])
def test_a_script_that_is_imported_for_its_app_does_not_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    (tmp_path / "imported_shop.py").write_text(SCRIPT.format(ending=ending))
    monkeypatch.syspath_prepend(tmp_path)
    assert load_app("imported_shop:app").id == "shop"
    monkeypatch.delitem(sys.modules, "imported_shop")


def test_an_app_of_a_script_has_the_name_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = type(sys)("__main__")
    main.__file__ = str(tmp_path / "kiosk.py")
    app = main.app = App("kiosk")  # type: ignore[attr-defined]
    (tmp_path / "kiosk.py").write_text("")
    monkeypatch.setitem(sys.modules, "__main__", main)
    with pytest.raises(ConfigError, match="no-such-app"):
        name_of(app)
    monkeypatch.syspath_prepend(tmp_path)
    assert name_of(app) == "kiosk:app"
