"""The progress of a recalculation as it is printed."""

from __future__ import annotations

import pytest

from tidegate.cli.progress_line import ProgressLine
from tidegate.upgrade.progress import Progress, StepProgress


def progress(done: int) -> Progress:
    return Progress(1, [StepProgress("by-word", 0, done, 1000)], 100.0)


def test_without_a_terminal_there_is_a_line_now_and_then_and_one_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressLine("shop") as line:
        for done in range(0, 500, 100):
            line(progress(done))
        assert capsys.readouterr().err == ""
        line._next_line = 0.0
        line(progress(500))
        assert (
            "shop: recalculated 500 of 1,000 records, 100 per second, about 5 s left"
            in capsys.readouterr().err
        )
        line(progress(600))
        assert capsys.readouterr().err == ""
        line(progress(1000))
    assert capsys.readouterr().err == "shop: recalculated 1,000 of 1,000 records, 100 per second\n"
    with ProgressLine("shop", quiet_seconds=0.0) as line:
        line(progress(1000))
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_on_a_terminal_one_line_renews_itself_with_a_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with ProgressLine("shop") as line:
        line(progress(500))
        shown = capsys.readouterr().err
        assert "500 of 1,000 records" in shown
        assert "━" in shown
