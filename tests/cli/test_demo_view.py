"""What the demo shows, from what the API answers."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console, ConsoleDimensions

from tidegate.cli.demo.screen import Screen, line, rendered
from tidegate.cli.demo.source import ADMITTED, TOTALS
from tidegate.cli.demo.watch import Customer, Outputs, Rate, Snapshot, customers_of

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202e\r\n"


def on_screen(now: Snapshot, width: int = 80) -> list[str]:
    reported = StringIO()
    Console(file=reported, force_terminal=True, color_system=None, width=width).print(rendered(now))
    return reported.getvalue().splitlines()


def lively(**other: object) -> Snapshot:
    names = [chr(ord("a") + number) * 3 for number in range(20)]
    customers = {name: Customer(name, 1234, 12_345_678) for name in names}
    customers["bbb"] = Customer("bbb", 10, 99, waiting=57, held=True, reason="chargeback")
    known: dict[str, object] = {
        "url": "http://127.0.0.1:8470",
        "sent_per_second": 200.4,
        "outputs_per_second": 188.6,
        "slots": 2,
        "lag": 12,
        "paused": 1,
        "held": 57,
        "held_bytes": 2048,
        "held_seconds": 9.4,
        "passed": 4567,
        "customers": customers,
        "latest": [customers["ccc"]],
    }
    return Snapshot(**{**known, **other})  # type: ignore[arg-type]


def test_everything_stands_on_a_small_screen() -> None:
    lines = on_screen(lively())
    text = "\n".join(lines)
    assert len(lines) <= 22
    assert max(map(len, lines)) <= 80
    for part in (
        "dashboard http://127.0.0.1:8470/ui/",
        "orders in 200/s   totals out 189/s   behind 12",
        "1 paused   57 orders held (2.0 KiB, the oldest for 9 s)",
        "4,567 orders passed, each directly after the previous one",
        "bbb is paused: chargeback",
        "123,456.78",
        "latest ccc",
    ):
        assert part in text
    assert all(name in text for name in lively().customers)


def test_a_line_shows_rates_paused_customers_and_what_is_out_of_turn() -> None:
    assert "in 200/s   out 189/s" in line(lively())
    assert "paused: bbb (57 held)" in line(lively())
    assert "3 out of turn" in line(lively(out_of_turn=3))
    assert "3 of 4,567 out of turn" in "\n".join(on_screen(lively(out_of_turn=3)))
    assert "Spark is starting" in line(Snapshot())
    assert "Spark is starting" in "\n".join(on_screen(Snapshot()))


def test_a_gate_can_be_paused_gate_wide() -> None:
    held = {name: Customer(name, waiting=1, held=True) for name in "abcde"}
    now = lively(paused=0, gate_wide=True, customers=held)
    assert "the gate is paused" in "\n".join(on_screen(now))
    assert "a (1 held), b (1 held), c (1 held) and 2 more" in line(now)


def test_names_and_reasons_write_no_control_codes(capfd: pytest.CaptureFixture[str]) -> None:
    hostile = Customer(HOSTILE, 1, 1, waiting=1, held=True, reason=HOSTILE)
    now = lively(customers={HOSTILE: hostile}, latest=[hostile])
    text = "".join(on_screen(now)) + line(now)
    assert text.isprintable()
    assert "\\x1b" in text
    view = Screen(json=False)
    view.report("told", HOSTILE)
    view.command(HOSTILE)
    reported = capfd.readouterr().out
    assert reported.count("\\x1b[2J") == 2
    assert reported.replace("\n", "").isprintable()


def test_too_many_customers_are_counted_and_those_that_wait_are_shown() -> None:
    many = {f"{number:04}": Customer(f"{number:04}") for number in range(500)}
    many["0499"] = Customer("0499", held=True, waiting=3)
    lines = on_screen(lively(customers=many))
    assert any("0499" in one for one in lines)
    assert any("and 476 more" in one for one in lines)
    assert len(lines) <= 24


LONG = "/srv/somebody/projects/streams1/tidegate/.venv/bin/tidegate"
COMMANDS = [
    f"cd /tmp/{'x' * 60}",
    *(f"{LONG} {verb} orders-gate ada" for verb in ("pause", "held", "resume")),
]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 30), (80, 50)])
def test_commands_stay_on_the_screen_below_the_numbers(width: int, height: int) -> None:
    reported = StringIO()
    now = lively(workers=[4711, 4712], paused=3)
    console = Console(file=reported, force_terminal=True, color_system=None, width=width)
    console.print(rendered(now, COMMANDS, ConsoleDimensions(width, height)))
    lines = reported.getvalue().splitlines()
    assert len(lines) <= height
    joined = "".join(one.rstrip() for one in lines)
    assert all(one.replace(" ", "") in joined.replace(" ", "") for one in COMMANDS)
    assert lines[-1].startswith("$ kill -9 4711")


def test_a_worker_that_was_killed_is_reported_as_restarted() -> None:
    assert any("workers 4711 and 4712" in one for one in on_screen(lively(workers=[4711, 4712])))
    killed = on_screen(lively(workers=[4713, 4712], restarts=1))
    assert any(
        "workers 4713 and 4712   1 restarted; every order still in turn, once" in one for one in killed
    )


def test_outputs_are_counted_and_what_is_out_of_turn_is_seen() -> None:
    outputs = Outputs()
    for key, number in (("ada", 1), ("bob", 1), ("ada", 2), ("ada", 4), ("ada", 5), ("bob", 1)):
        outputs.take({"topic": ADMITTED.name, "key": key, "value": {"id": number, "cents": 1}})
    for key, count in (("ada", 1), ("bob", 1), ("ada", 2)):
        outputs.take({"topic": TOTALS.name, "key": key, "value": {"orders": count, "cents": 5}})
    outputs.take({"topic": TOTALS.name, "key": {"base64": "/w=="}, "value": None})
    assert (outputs.passed, outputs.out_of_turn, outputs.outputs) == (6, 2, 4)
    assert [(one.name, one.orders) for one in outputs.latest()] == [
        ('{"base64":"/w=="}', 0),
        ("ada", 2),
        ("bob", 1),
    ]


def test_a_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    assert rate.at(0.0, 0) == 0.0
    assert rate.at(1.0, 100) == 100.0
    reported = [rate.at(float(second), 100 + 10 * (second - 1)) for second in range(2, 20)]
    assert reported[-1] == 10.0


def test_rows_and_keys_meet_in_customers() -> None:
    paused = {"state": "PAUSED", "reason": "chargeback"}
    resumed = {"state": "ACTIVE", "reason": "paid"}
    found = customers_of(
        [{"key": "bob", "value": {"orders": 2, "cents": 5}}, {"key": "cleo", "value": "what?"}],
        [
            {"key": "ada", "held": True, "waiting": 3, "status": paused},
            {"key": "bob", "held": False, "waiting": 0, "status": resumed},
            {"key": "dan", "held": True, "waiting": 1, "status": None},
        ],
    )
    assert list(found.values()) == [
        Customer("ada", waiting=3, held=True, reason="chargeback"),
        Customer("bob", 2, 5),
        Customer("cleo"),
        Customer("dan", waiting=1, held=True),
    ]
