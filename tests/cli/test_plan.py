"""`tidegate plan`: what it prints, its exit codes, and that it changes nothing."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from tidegate.clock import ManualClock
from tidegate.load import load_app
from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Driver

pytestmark = pytest.mark.usefixtures("suite_apart")
SHOP = """
from tidegate import App, Settings, TableTopic, Topic, operational
from plan_prices import discount

class Config(Settings):
    least: int = 0
    note: str = operational("")

ORDERS, TOTALS = Topic("orders", int), TableTopic("totals", int)

def add(total: int, cents: int) -> int:
    return total + discount(cents)

def app(config: Config) -> App:
    made = App("shop")
    orders = made.stream(ORDERS).gate("door")
    orders.filter(lambda cents: cents >= 0).aggregate("sums", int, add).to(TOTALS)
    return made
"""
PRICES = """
RATE = 3

def discount(cents: int) -> int:
    return cents - cents * RATE // 100
"""
MODULES = ("plan_shop", "plan_prices")
NAME = "plan_shop:app"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # else an edit within the same second is not seen
    (tmp_path / "plan_shop.py").write_text(SHOP)
    (tmp_path / "plan_prices.py").write_text(PRICES)
    paths = list(sys.path)
    yield tmp_path
    sys.path[:] = paths
    forget()


def forget() -> None:
    """Import the project again, as a new process does."""
    for name in MODULES:
        sys.modules.pop(name, None)


def ran_once(run: Run, folder: Path) -> None:
    run("topics", "create", "orders", "--partitions", "2")
    sys.path.insert(0, str(folder))
    with (
        closing(SqliteLog(folder / ".tidegate" / "log.db")) as log,
        Driver(load_app(NAME), partitions=2, log=log, clock=ManualClock()) as driver,
    ):
        orders = sys.modules["plan_shop"].ORDERS
        driver.send(orders, "ada", 100, 200)
        driver.send(orders, "bob", 300)
        driver.run()
        driver.gate("door").pause("ada")
        driver.run()
        driver.send(orders, "ada", 400)
        driver.run()
        driver.stop()
    forget()


def edit(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    forget()


def files(folder: Path) -> dict[str, str]:
    """The content of all files below the folder of the log."""
    found = sorted(path for path in (folder / ".tidegate").rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def planned(run: Run, folder: Path, code: int, *arguments: str) -> Any:
    """The plan as JSON; the log is as it was."""
    before = files(folder), run("topics", "list", "--json").json
    found = run("plan", NAME, *arguments, "--json", code=code).json
    forget()
    assert (files(folder), run("topics", "list", "--json").json) == before
    return found


def test_an_unchanged_app_has_nothing_to_do(run: Run, tmp_path: Path) -> None:
    ran_once(run, tmp_path)
    assert planned(run, tmp_path, 0)["state"] == "nothing"
    assert run("plan", NAME).out.startswith("shop: generation 1, nothing to do\n")


def test_comments_and_formatting_are_nothing(run: Run, tmp_path: Path) -> None:
    ran_once(run, tmp_path)
    edit(tmp_path, "plan_prices.py", "def discount", "# The discount of regular customers.\n\n\ndef discount")
    edit(tmp_path, "plan_shop.py", "    orders = made", "\n    orders = made")
    assert planned(run, tmp_path, 0)["state"] == "nothing"


def test_a_changed_helper_is_named_with_its_lines_and_the_step_that_uses_it(run: Run, tmp_path: Path) -> None:
    ran_once(run, tmp_path)
    edit(tmp_path, "plan_prices.py", "\ndef discount", "\n\ndef discount")
    edit(tmp_path, "plan_prices.py", "// 100", "// 50")
    found = planned(run, tmp_path, 2)
    assert (found["before"], found["after"], found["changes"]["kinds"]) == (1, 2, ["logic"])
    out = run("plan", NAME, code=2).out
    forget()
    assert "shop: generation 1 -> 2" in out
    assert "discount differs (plan_prices.py:5, was plan_prices.py:4)" in out
    assert "= gate door" in out
    assert "kept; 1 held events stay held" in out
    assert "recalculate sums from 3 records; publish to totals what differs" in out


def test_a_changed_constant_and_a_changed_lambda_are_named(run: Run, tmp_path: Path) -> None:
    ran_once(run, tmp_path)
    edit(tmp_path, "plan_prices.py", "RATE = 3", "RATE = 4")
    assert "RATE" in run("plan", NAME, code=2).out
    edit(tmp_path, "plan_prices.py", "RATE = 4", "RATE = 3")
    edit(tmp_path, "plan_shop.py", "cents >= 0", "cents >= 1")
    out = run("plan", NAME, code=2).out
    assert "~ filter" in out
    assert "plan_shop.py:17" in out


def test_a_setting_counts_unless_it_is_operational(run: Run, tmp_path: Path) -> None:
    ran_once(run, tmp_path)
    (tmp_path / "tidegate.toml").write_text('[settings]\nnote = "x"\n')
    assert planned(run, tmp_path, 0)["state"] == "nothing"
    (tmp_path / "tidegate.toml").write_text("[settings]\nleast = 7\n")
    assert planned(run, tmp_path, 2)["changes"]["kinds"] == ["configuration"]
    out = run("plan", NAME, code=2).out
    assert 'setting "least" changed' in out
    assert "7" not in out.replace("plan_shop.py:17", "")


def test_what_must_be_decided_has_an_exit_code_of_its_own(run: Run, tmp_path: Path) -> None:
    ran_once(run, tmp_path)
    edit(tmp_path, "plan_shop.py", '.gate("door")', "")
    found = planned(run, tmp_path, 3)
    assert [one["code"] for one in found["questions"]] == ["held-events"]
    assert "? [held-events] gate door is gone, and holds 1 events  Do: " in run("plan", NAME, code=3).out


def test_without_a_log_the_app_would_start_and_no_file_is_created(run: Run, tmp_path: Path) -> None:
    out = run("plan", NAME, code=2).out
    assert "shop: first start" in out
    assert "never ran" in out
    assert not (tmp_path / ".tidegate").exists()


@pytest.mark.parametrize(
    ("name", "code"), [("nowhere:app", "no-such-app"), ("plan_broken:app", "broken-app"), (None, "no-app")]
)
def test_an_app_that_cannot_be_imported_is_refused(
    run: Run, tmp_path: Path, name: str | None, code: str
) -> None:
    (tmp_path / "plan_broken.py").write_text("raise ValueError('no')\n")
    arguments = [] if name is None else [name]
    assert run("plan", *arguments, "--json", code=1).json["error"]["code"] == code
    assert not (tmp_path / ".tidegate").exists()


def test_a_source_that_is_gone_is_refused(run: Run) -> None:
    run("topics", "create", "other")
    assert run("plan", NAME, "--json", code=1).json["error"]["code"] == "no-such-topic"


def test_another_app_of_the_same_id_is_refused(run: Run, tmp_path: Path) -> None:
    ran_once(run, tmp_path)
    (tmp_path / "plan_other.py").write_text(
        "from tidegate import App, Topic\n"
        "app = App('shop')\n"
        "app.stream(Topic('orders', int)).to(Topic('elsewhere', int))\n"
    )
    error = run("plan", "plan_other:app", "--json", code=1).json["error"]
    sys.modules.pop("plan_other", None)
    assert (error["code"], "tidegate reset shop" in error["hint"]) == ("id-taken", True)


def test_a_start_of_a_changed_app_is_refused_with_what_differs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran_once(run, tmp_path)
    edit(tmp_path, "plan_prices.py", "// 100", "// 50")
    monkeypatch.setenv("PATH", str(tmp_path))  # with no Java it could not go far
    assert run("run", NAME, "--json", code=1).json["error"]["code"] == "no-java"  # it would upgrade
    monkeypatch.setenv("TIDEGATE_UPGRADE", "ask")
    error = run("run", NAME, "--json", code=1).json["error"]
    assert error["code"] == "changed-app"
    assert "discount differs (plan_prices.py:4)" in error["message"]
    assert 'aggregate "sums" (plan_shop.py:17)' in error["message"]
    assert "tidegate plan" in error["hint"]
