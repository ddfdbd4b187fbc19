"""The command line, run in this process against a log of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from tidegate.cli.main import app


class Ran(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `tidegate ...` in an empty folder; fails if it ends with another exit code than `code=`."""
    monkeypatch.chdir(tmp_path)
    for variable in ("TIDEGATE_LOG", "TIDEGATE_PARTITIONS", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)

    def runs(*arguments: str, stdin: str | bytes | None = None, code: int = 0) -> Ran:
        result = CliRunner().invoke(app, list(arguments), input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        ran = Ran(result.exit_code, result.stdout, result.stderr)
        assert ran.code == code, ran
        return ran

    return runs
