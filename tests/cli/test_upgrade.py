"""`tidegate upgrade` and `tidegate rollback`, as far as they come without Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from tidegate import App, Topic
from tidegate.clock import SystemClock
from tidegate.config.config import Config
from tidegate.errors import UpgradeError
from tidegate.load import load_app
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.topics.decisions import DecidedBy
from tidegate.runtime.topics.upgrades import UpgradeEntry
from tidegate.state.manager import Limits
from tidegate.testing import Driver
from tidegate.upgrade.abandon import cancel
from tidegate.upgrade.consent import Consent
from tidegate.upgrade.runners import InProcess
from tidegate.upgrade.upgrades import UpgradeResources, upgrade

APP = """
from tidegate import App, TableTopic, Topic

app = App("upshop")
app.stream(Topic("orders", int)){steps}.sum("sums", int).to(TableTopic("{sink}", int))
"""


def write(folder: Path, module: str, steps: str = "", sink: str = "totals") -> str:
    (folder / f"{module}.py").write_text(APP.format(steps=steps, sink=sink))
    return f"{module}:app"


@pytest.fixture
def ran(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An app that ran once."""
    monkeypatch.syspath_prepend(str(tmp_path))
    run("topics", "create", "orders", "--partitions", "2")
    name = write(tmp_path, "upshop_1")
    with (
        closing(SqliteLog(tmp_path / ".tidegate" / "log.db")) as log,
        Driver(load_app(name, {}), partitions=2, log=log) as d,
    ):
        for number in range(5):
            d.send(Topic("orders", int), f"k{number}", number)
        d.run()
    return tmp_path


def test_what_has_to_be_decided_ends_it_before_spark_starts(
    run: Run, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = write(ran, "upshop_2", sink="others")
    error = run("upgrade", name, "--json", code=3).json["error"]
    assert (error["code"], error["hint"]) == ("upgrade-waits", "tidegate upgrade --allow-removals totals")
    assert run("run", name, "--json", code=1).json["error"]["code"] == "upgrade-waits"
    monkeypatch.setenv("PATH", str(ran))
    allowed = run("upgrade", name, "--allow-removals", "totals", "--json", code=1).json["error"]
    assert allowed["code"] == "no-java"


def test_an_upgrade_that_waits_can_be_cancelled(run: Run, ran: Path) -> None:
    name = write(ran, "upshop_3", ".filter(lambda cents: cents < 2)")
    assert run("upgrade", name, "--cancel", "--json", code=1).json["error"]["code"] == "no-upgrade"
    with (
        closing(SqliteLog(ran / ".tidegate" / "log.db")) as log,
        Driver(load_app("upshop_1:app", {}), partitions=2, log=log) as d,
        pytest.raises(UpgradeError),
    ):
        d.upgrade(load_app(name, {}), Consent())
    shown = run("generations", "upshop", "--json").json["generations"]
    assert [(one["state"], one["upgrade"]) for one in shown][-1] == ("candidate", "waiting")
    done = run("upgrade", name, "--cancel", "--actor", "ada", "--reason", "wrong limit")
    assert done.out == "upshop: generation 1 -> 2, cancelled\n", "nothing was published"
    assert "generation 2: cancelled by ada (cli): wrong limit" in run("generations", "upshop").out
    [decision] = run("generations", "upshop", "--json").json["decisions"]
    assert decision["by"] == {"actor": "ada", "reason": "wrong limit", "via": "cli"}


def in_process(
    waits: Callable[[SqliteLog, UpgradeEntry], bool],
) -> Callable[[App, Config, Consent], UpgradeEntry | None]:
    """Upgrade in this process, in place of Spark."""

    def upgraded(app: App, config: Config, consent: Consent) -> UpgradeEntry | None:
        folder = config.folder / "state"
        with closing(SqliteLog(config.folder / ".tidegate" / "log.db")) as log:
            return upgrade(
                UpgradeResources(
                    app.build(),
                    log,
                    SystemClock(),
                    lambda _: InProcess(folder, limits=Limits(sync=False)),
                    folder,
                    partitions=2,
                    consent=consent,
                    wait=partial(waits, log),
                )
            )

    return upgraded


def test_cancelled_from_elsewhere_it_ends_with_4_and_who_did_it(
    run: Run, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled(log: SqliteLog, _: UpgradeEntry) -> bool:
        cancel(log, "upshop", None, SystemClock(), DecidedBy("ada", via="http"))
        return True

    monkeypatch.setattr("tidegate.cli.upgrade._upgraded", in_process(cancelled))
    name = write(ran, "upshop_5", ".filter(lambda cents: cents < 2)")
    error = run("upgrade", name, "--json", code=4).json["error"]
    assert error["code"] == "upgrade-cancelled"
    assert "generation 2 was cancelled by ada (http)" in error["message"]


def test_a_consent_on_the_command_line_is_kept_and_listed(
    run: Run, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.cli.upgrade._upgraded", in_process(lambda *_: False))
    name = write(ran, "upshop_6", ".filter(lambda cents: cents < 2)")
    run("upgrade", name, code=3)
    assert run("generations", "upshop", "--json").json["decisions"] == []
    run("upgrade", name, "--allow-removals", "totals", "--actor", "ada", "--reason", "agreed")
    shown = run("generations", "upshop").out
    assert "generation 2: allowed by ada (cli): agreed; 3 of 5 rows of totals would be removed" in shown
    [decision] = run("generations", "upshop", "--json").json["decisions"]
    assert (decision["kind"], decision["removals"]) == ("consent", ["totals"])


def test_describe_shows_an_upgrade_that_waits(run: Run, ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.cli.upgrade._upgraded", in_process(lambda *_: False))
    name = write(ran, "upshop_7", ".filter(lambda cents: cents < 2)")
    assert run("describe", name, "--json").json["upgrade"] is None
    run("upgrade", name, code=3)
    shown = run("describe", name).out.splitlines()[-1]
    assert shown == (
        "upgrade to generation 2: waiting for consent: 3 of 5 rows of totals would be removed  "
        "Do: tidegate upgrade --allow-removals totals"
    )
    upgrade = run("describe", name, "--json").json["upgrade"]
    assert (upgrade["generation"], upgrade["state"]) == (2, "waiting")
    assert [one["code"] for one in upgrade["questions"]] == ["many-removed"]
    assert run("describe", name, "--mermaid").out.startswith("flowchart")
    assert "3 of 5 rows" in run("status", "upshop", "--once").out
    run("upgrade", name, "--cancel")
    assert "upgrade" not in run("describe", name).out
    elsewhere = f"sqlite:///{ran.name}/nowhere.db"
    assert run("describe", name, "--log", elsewhere, "--json").json["upgrade"] is None, "there is no log"


def test_only_a_former_generation_can_be_gone_back_to(run: Run, ran: Path) -> None:
    name = write(ran, "upshop_4", ".filter(lambda cents: cents < 4)")
    assert run("rollback", name, "--json", code=1).json["error"]["code"] == "not-former"
