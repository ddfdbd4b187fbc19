"""`tidegate dead-letters` and `tidegate redrive` agree with the server."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from tests.cli.conftest import Run
from tests.server.test_dead_letters import LINES, shop

from tidegate.config.config import load_config
from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Driver


def failed(run: Run, folder: Path) -> None:
    run("topics", "create", "lines", "--partitions", "2")
    with (
        closing(SqliteLog(folder / ".tidegate" / "log.db")) as log,
        Driver(shop(), partitions=2, log=log) as d,
    ):
        d.send(LINES, "ada", "1", "two", "three", "late")
        d.run()


def test_a_letter_is_sent_once_unless_it_is_sent_again_on_purpose(run: Run, tmp_path: Path) -> None:
    failed(run, tmp_path)
    first, second = run("dead-letters", "shop", "--json").json["groups"]
    assert (first["offsets"], first["sent"], second["offsets"]) == ([0, 1], [], [2])
    done = run("redrive", "shop", "0", "2", "--reason", "fixed", "--actor", "ada", "--json").json
    assert [one["offset"] for one in done["redriven"]] == [0, 2]
    assert done["refused"] == []
    refused = run("redrive", "shop", "0", "1", code=1).out.splitlines()
    assert refused[0].startswith("1 -> lines/")
    assert refused[1].startswith("0: [already-redriven] dead letter 0 was sent back to lines/")
    assert "by ada at " in refused[1]
    assert run("redrive", "shop", "0", "--again", "--reason", "twice").out.startswith("0 -> lines/")
    shown = run("dead-letters", "shop").out
    assert "2 times by now: twice" in shown
    assert "by ada: fixed" in shown
    [found] = [one for one in run("dead-letters", "shop", "--json").json["groups"] if 2 in one["offsets"]]
    [sent] = found["sent"]
    assert (sent["by"], sent["reason"], sent["times"]) == ("ada", "fixed", 1)


def test_what_the_command_line_sent_the_server_refuses(run: Run, tmp_path: Path) -> None:
    from tests.server.conftest import Client, served

    failed(run, tmp_path)
    run("redrive", "shop", "1", "--actor", "ada")
    with served(load_config(environ={}, folder=tmp_path)) as url, Client(base_url=url, timeout=30) as client:
        answer = client.post("/apps/shop/dead-letters/redrive", json={"offsets": [0, 1]}).json()
        assert [one["code"] for one in answer["refused"]] == ["already-redriven"]
        assert "by ada" in answer["refused"][0]["message"]
    assert run("redrive", "shop", "0", code=1).out.startswith("0: [already-redriven]")


def test_what_cannot_be_sent_is_named(run: Run, tmp_path: Path) -> None:
    failed(run, tmp_path)
    assert "[no-such-record]" in run("redrive", "shop", "99", code=1).out
    long = run("redrive", "shop", "0", "--reason", "x" * 5000, "--json", code=1).json
    assert long["error"]["code"] == "too-long"
    for command in (("dead-letters", "none"), ("redrive", "none", "0")):
        assert run(*command, "--json", code=1).json["error"]["code"] == "never-started"
    many = run("redrive", "shop", *map(str, range(1001)), "--json", code=1).json
    assert many["error"]["code"] == "bad-usage"
