"""`tidegate plan --preview`: what it prints and writes, and what it removes. tests/spark runs it on Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Run
from tests.upgrade import versions
from tests.upgrade.stories import STORY, Killed, send
from tests.upgrade.versions import PARTITIONS, all_ends

from tidegate.cli.plan_preview import as_plain, print_preview, write_parquet
from tidegate.log import names
from tidegate.log.faultpoints import installed
from tidegate.log.sqlite.log import SqliteLog
from tidegate.testing import Driver
from tidegate.testing.previews import preview_here
from tidegate.upgrade.previews import Preview

APP = "from tests.upgrade.versions import grouped\n\n\ndef app():\n    return grouped(1)\n"


def killed_at_its_first_commit() -> Callable[[str], None]:
    """A hook; a killed process does not clean up either."""
    reached: list[str] = []

    def hook(point: str) -> None:
        reached.append(point)
        if "commit.5" in reached:
            raise Killed

    return hook


@pytest.fixture(scope="module")
def found() -> Preview:
    """Orders of a customer that version 2 counts elsewhere."""
    with Driver(versions.grouped(1), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        return d.preview(versions.grouped(2))


def test_the_text_shows_counts_and_some_rows(found: Preview, capsys: pytest.CaptureFixture[str]) -> None:
    counts = found.counts["out"]
    print_preview(found, 1)
    text = capsys.readouterr().out
    assert f"preview over {found.records} records:" in text
    assert f"out: {counts.put} put, {counts.changed} changed, {counts.removed} removed" in text
    assert f"and {counts.differing - 1} more: --rows, or --parquet PATH for all" in text
    [first, *_] = found.texts()
    assert str(first["key"]) in text
    assert "would be" in text


def test_json_has_the_counts_of_all_rows_and_as_many_rows_as_requested(found: Preview) -> None:
    plain = as_plain(found, 1)
    assert plain["sinks"]["out"]["changed"] == found.counts["out"].changed
    assert plain["rows"] == found.texts()[:1]
    assert (plain["records"], plain["settled"], plain["failures"]) == (found.records, True, 0)


def test_parquet_has_all_rows(found: Preview, tmp_path: Path) -> None:
    write_parquet(found, tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == found.texts()
    assert len(found.texts()) == found.counts["out"].differing > 0


def test_a_file_that_cannot_be_written_is_refused_before_the_preview(run: Run, tmp_path: Path) -> None:
    (tmp_path / "preview_app.py").write_text(APP)
    refused = run("plan", "preview_app:app", "--preview", "--parquet", "none/rows.parquet", "--json", code=1)
    assert refused.json["error"]["code"] == "no-such-folder"


def test_a_plan_removes_what_a_killed_preview_left_and_nothing_else(run: Run, tmp_path: Path) -> None:
    (tmp_path / "preview_app.py").write_text(APP)
    state = tmp_path / ".tidegate" / "state"
    state.mkdir(parents=True)
    with closing(SqliteLog(tmp_path / ".tidegate" / "log.db")) as log:
        with Driver(versions.grouped(1), partitions=PARTITIONS, log=log) as d:
            send(d, STORY)
            d.run()
            d.stop()
            before = all_ends(log)
            with installed(killed_at_its_first_commit()), pytest.raises(Killed):
                preview_here(versions.grouped(2), log, d.clock, state, PARTITIONS, "stop")
        left = [topic for topic in log.names() if names.of_preview(topic)]
        assert names.control(names.preview("shop")) in left
        assert (state / names.preview("shop")).is_dir()
        for command in (["topics", "list"], ["status", "--once"], ["state", "ls"]):
            assert names.preview("shop") not in str(run(*command, "--json").json)
        run("plan", "preview_app:app", "--json")
        assert all_ends(log) == before
        assert not (state / names.preview("shop")).exists()


def test_a_user_may_not_use_the_names_of_previews(run: Run) -> None:
    refused = run("topics", "create", "shop.preview.g0-control", "--json", code=1)
    assert refused.json["error"]["code"] == "reserved-name"
