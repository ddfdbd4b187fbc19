"""The plugin in a pytest run of its own, and what `import tidegate.testing` costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tidegate.testing

STORY = """
import pytest
from tidegate import App, TableTopic, Topic

LINES, COUNTS = Topic("lines", str), TableTopic("counts", int)
made = []

def counting():
    app = App("counting")
    app.stream(LINES).count("counted").to(COUNTS)
    return app

def test_two_drivers_at_once(driver):
    made.extend([driver(counting(), partitions=3), driver(counting(), slots=2)])
    for number, d in enumerate(made, 1):
        d.send(LINES, "ada", *["one"] * number)
        d.run()
        assert d.rows(COUNTS) == {"ada": number}

def test_they_are_closed_now():
    for d in made:
        with pytest.raises(Exception, match="closed"):
            d.run()

def test_one_that_fails_is_closed_too(driver):
    made.append(driver(counting()))
    made[-1].crash(at="restore.4")
    made[-1].run()
"""


@pytest.mark.slow
def test_the_fixture_makes_drivers_and_closes_them(tmp_path: Path) -> None:
    (tmp_path / "test_story.py").write_text(STORY)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tidegate.testing.pytest_plugin"]
    done = subprocess.run(
        [*command, "-W", "error", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    assert "did not happen: crash at restore.4" in done.stdout


@pytest.mark.slow
def test_to_import_the_testing_package_loads_neither_pytest_nor_the_driver() -> None:
    probe = (
        "import sys, tidegate.testing; assert 'pytest' not in sys.modules; "
        "assert 'tidegate.testing.driver' not in sys.modules; "
        "from tidegate.testing import Commit, Driver; assert 'pytest' not in sys.modules; print(Commit.LOG)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "commit.5"


def test_the_package_exports_what_it_names_and_nothing_else() -> None:
    assert all(getattr(tidegate.testing, name) is not None for name in tidegate.testing.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Conductor'"):
        _ = tidegate.testing.Conductor
