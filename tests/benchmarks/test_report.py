"""What every benchmark prints, and that it does not show whose machine it ran on."""

from __future__ import annotations

import getpass
import json
import os
import platform
from pathlib import Path

import pytest
from benchmarks.report import Report, Result, describe, machine, median, percentile, processor, run, shown
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

FACTS: dict[str, str | int | float] = {
    "system": "Linux",
    "processor": "Some CPU",
    "cores": 2,
    "memory_gib": 23.5,
    "python": "3.11.7",
}


def measure(report: Report, quick: bool) -> None:
    report.progress("rows")
    report.measured("rows", 10 if quick else 1000, "rows")
    report.at_least("speed", 7.9, "x", 5)
    report.at_most("size", 1.42, "x", 1.3)


def as_text(report: Report) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(report.table())
    return captured.get()


def test_a_result_without_target_promises_nothing() -> None:
    report = Report("log", FACTS)
    report.measured("rows", 3, "rows")
    assert report.results == [Result("rows", 3, "rows", None, None)]


@pytest.mark.parametrize(
    ("method", "value", "target", "holds"),
    [
        ("at_least", 5.0, ">= 5", True),
        ("at_least", 4.99, ">= 5", False),
        ("at_most", 5.0, "<= 5", True),
        ("at_most", 5.01, "<= 5", False),
        ("below", 4.99, "< 5", True),
        ("below", 5.0, "< 5", False),
    ],
)
def test_a_target_holds_up_to_its_edge(method: str, value: float, target: str, holds: bool) -> None:
    report = Report("log", FACTS)
    getattr(report, method)("speed", value, "x", 5)
    assert report.results == [Result("speed", value, "x", target, holds)]


def test_the_table_shows_each_result_and_marks_a_missed_target() -> None:
    report = Report("log", FACTS)
    measure(report, quick=False)
    rows = {line.split("│")[1].strip(): line for line in as_text(report).splitlines() if line.startswith("│")}
    assert "1,000" in rows["rows"]
    assert "yes" in rows["speed"]
    assert ">= 5" in rows["speed"]
    assert "NO" in rows["size"]


def test_json_is_one_object_with_the_keys_that_were_agreed(capsys: pytest.CaptureFixture[str]) -> None:
    run("log", measure, ["--json", "--quick"])
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert list(found) == ["benchmark", "machine", "results"]
    assert found["benchmark"] == "log"
    assert found["results"] == [
        {"name": "rows", "value": 10, "unit": "rows", "target": None, "holds": None},
        {"name": "speed", "value": 7.9, "unit": "x", "target": ">= 5", "holds": True},
        {"name": "size", "value": 1.42, "unit": "x", "target": "<= 1.3", "holds": False},
    ]
    assert printed.err == "... rows\n"


def test_without_options_a_table_of_the_full_run_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    run("log", measure, [])
    assert "1,000" in capsys.readouterr().out


def test_the_machine_is_described_without_its_name_its_user_or_a_path() -> None:
    reported = json.dumps(machine())
    assert platform.node() not in reported
    assert getpass.getuser() not in reported
    assert os.sep not in reported.replace("\\/", "")
    assert describe(FACTS) == "Linux, 2 cores (Some CPU), 23.5 GiB, Python 3.11.7"


def test_the_processor_is_the_model_if_the_system_reports_it(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    assert processor(cpuinfo) == platform.machine()
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n")
    assert processor(cpuinfo) == "Some CPU @ 3 GHz"


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert percentile(values, 50) == 50
    assert percentile(values, 99) == 99
    assert percentile(values, 100) == 100
    assert percentile([7.0], 99) == 7


def test_median_of_an_even_count_is_the_mean_of_the_middle() -> None:
    assert median([4.0, 1.0, 2.0, 9.0]) == 3
    assert median([5.0, 1.0, 2.0]) == 2


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1),
    st.floats(min_value=0, max_value=100),
)
def test_at_least_so_many_percent_do_not_pass_a_percentile(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= len(values) * percent / 100 - 1e-9 * len(values)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.00"),
        (1.005, "1.00"),
        (9.876, "9.88"),
        (43.42, "43.4"),
        (123.4, "123"),
        (3_927_462, "3,927,462"),
    ],
)
def test_numbers_are_shown_with_the_digits_that_count(value: float, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("rounds", "value", "holds"),
    [
        ([5.0, 6, 7, 8, 9], 7, True),
        ([4.9, 6, 7, 8, 9], 7, True),
        ([4.9, 4.8, 7, 8, 9], 7, False),
        ([4.9, 4.9, 4.9, 8, 9], 4.9, False),
    ],
)
def test_a_target_holds_if_the_median_and_four_of_five_rounds_do(
    rounds: list[float], value: float, holds: bool
) -> None:
    report = Report("log", FACTS)
    report.at_least("speed", rounds, "x", 5)
    assert report.results == [Result("speed", value, "x", ">= 5", holds, tuple(rounds))]
    assert f"{shown(min(rounds))} to {shown(max(rounds))}" in as_text(report)
