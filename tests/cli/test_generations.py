"""`tidegate generations` and `tidegate finish`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tests.cli.conftest import Run
from tests.upgrade.test_upgrade import shop
from tests.upgrade.test_upgrade_refused import sent

from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Driver


def upgraded(run: Run, folder: Path, *, ran: bool = True) -> None:
    run("topics", "create", "orders", "--partitions", "2")
    with (
        closing(SqliteLog(folder / ".tidegate" / "log.db")) as log,
        Driver(shop(), partitions=2, log=log) as d,
    ):
        sent(d)
        d.upgrade(shop(800))
        if ran:
            d.run()


def test_finish_deletes_what_the_list_shows_as_left(run: Run, tmp_path: Path) -> None:
    upgraded(run, tmp_path)
    first, second = run("generations", "shop", "--json").json["generations"]
    assert (first["state"], first["left"]) == ("former", ["shop-sums-changelog"])
    assert (second["state"], second["upgrade"], second["kinds"]) == ("active", "done", ["logic"])
    shown = run("generations", "shop").out
    assert "totals: 0 put, 0 changed, 1 removed, 8 equal" in shown
    assert "1 topic" in shown
    assert run("finish", "shop").out.splitlines() == [
        "deleted topic shop-sums-changelog",
        "shop: deleted 1 topic and 2 positions",
    ]
    assert run("finish", "shop").out == "shop: nothing to delete\n"
    assert run("finish", "shop", "--json").json["generations"] == [1]
    assert "finished" in run("generations", "shop").out
    assert "shop-sums-changelog" not in run("topics", "list", "--json").out


def test_finish_is_refused_before_the_app_has_run_again(run: Run, tmp_path: Path) -> None:
    upgraded(run, tmp_path, ran=False)
    assert run("finish", "shop", "--json", code=1).json["error"]["code"] == "not-run-since"


def test_an_app_that_never_ran_is_refused_by_name(run: Run) -> None:
    run("topics", "create", "orders")
    for command in ("generations", "finish"):
        assert run(command, "shop", "--json", code=1).json["error"]["code"] == "never-started"
