"""What commands refuse has a code of its own: those that no other test is about."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import Run

import tidegate


def test_doctor_warns_of_a_limit_on_address_space(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text('[spark.conf]\n"spark.executor.pyspark.memory" = "1g"\n')
    [checks, failure] = run("doctor", "--json", code=1).lines
    found = {check["name"]: check.get("code") for check in checks["checks"]}
    assert found["memory limits"] == "address-space"
    assert (failure["error"]["code"], failure["error"]["message"]) == (
        "not-ready",
        "not ready: memory limits",
    )


def test_a_port_that_is_taken_is_reported_before_anything_else(run: Run) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        shown = run("serve", "--port", str(port), "--log", "sqlite:///log.db", code=1)
    assert "[cannot-listen]" in shown.err
    assert f"127.0.0.1:{port}" in shown.err
    assert not Path("log.db").exists()


def test_a_package_without_its_example_cannot_show_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    # A package that was built without its example is not installed here.
    monkeypatch.setattr(tidegate, "__file__", str(Path("nowhere/src/tidegate/__init__.py").absolute()))
    shown = run("demo", "--folder", "here", code=1)
    assert "[no-example]" in shown.err
