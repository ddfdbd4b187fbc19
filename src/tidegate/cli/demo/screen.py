"""The output of the demo: a live table, or lines, or JSON."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from itertools import islice
from types import TracebackType
from typing import Any

import msgspec
from rich.console import Console, ConsoleDimensions, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tidegate.cli.dashboard_url import dashboard_of
from tidegate.cli.demo.watch import Customer, Snapshot
from tidegate.cli.output import print_json, print_line
from tidegate.text.render import printable

LINE_SECONDS = 2.0
BLOCKS = 2
ROWS_SHOWN = 12
LONGEST_NAME = 14
LONGEST_REASON = 30
NAMED = 3
NUMBER_LINES = 10
"""Lines of the screen besides customers and commands: numbers, headings, `and n more`, one reason."""
FEWEST_ROWS = 2
SMALLEST_TERMINAL = ConsoleDimensions(80, 24)


class Screen:
    """Prints the events and the numbers of the demo."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._console = Console(highlight=False)
        self.attended = sys.stdout.isatty() and not json
        """Whether stdout is a terminal; colors may be forced without one."""
        self._live = self.attended and not self._console.is_dumb_terminal
        self._table = Live(console=self._console, auto_refresh=False)
        self._line_at = 0.0
        self._commands: list[str] = []

    def __enter__(self) -> Screen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._table.stop()

    def report(self, event: str, text: str = "", **facts: Any) -> None:
        """Print an event: a line for people, or an object for programs; without a text only the object. The
        next numbers are printed at once."""
        self._line_at = 0.0
        if self._json:
            print_json({"event": event, **facts})
        elif self._live and text:
            self._console.print(Text(printable(text)), soft_wrap=True)
        elif text:
            print_line(printable(text))

    def command(self, text: str) -> None:
        """Print a command to try. On a terminal it stays visible below the numbers."""
        if self._live:
            self._commands.append(text)
        elif not self._json:
            print_line(f"  $ {printable(text)}")

    def show(self, now: Snapshot) -> None:
        """Show the numbers."""
        if self._live:
            self._table.start()
            self._table.update(rendered(now, self._commands, self._console.size), refresh=True)
        elif time.monotonic() >= self._line_at:
            self.report("numbers", line(now), **msgspec.to_builtins(now))
            self._line_at = time.monotonic() + LINE_SECONDS


def rendered(
    now: Snapshot, commands: Sequence[str] = (), size: ConsoleDimensions = SMALLEST_TERMINAL
) -> Group:
    """Render the numbers for a terminal of 80 columns and 24 lines, or larger. The table of customers gets
    the lines that commands and numbers leave."""
    shown = [*commands, *_kill(now)] if commands else []
    tried = [Text.assemble(("$ ", "dim"), (printable(one), "bold")) for one in shown]
    taken = NUMBER_LINES + sum(-(-one.cell_len // size.width) for one in tried)
    rows = max(FEWEST_ROWS, min(ROWS_SHOWN, size.height - taken))
    return Group(
        Text.assemble(("dashboard ", "dim"), (printable(dashboard_of(now.url)), "cyan")),
        Text.assemble(
            ("orders in ", "dim"),
            f"{now.sent_per_second:,.0f}/s",
            ("   totals out ", "dim"),
            f"{now.outputs_per_second:,.0f}/s",
            ("   behind ", "dim"),
            f"{now.lag:,}",
            ("   processed ", "dim"),
            f"{now.processed_per_second:,.0f}/s on {now.slots} slots" if now.slots else "(Spark is starting)",
        ),
        Text.assemble(("gate ", "dim"), *_gate(now)),
        Text.assemble(_order(now)),
        Text.assemble(("workers ", "dim"), *_workers(now)),
        _table(list(now.customers.values()), rows),
        Text.assemble(
            ("latest ", "dim"),
            "   ".join(_output(one) for one in now.latest),
            overflow="ellipsis",
            no_wrap=True,
        ),
        *([Text("Try, in another terminal:", "dim"), *tried] if tried else []),
    )


def line(now: Snapshot) -> str:
    """Render the numbers in one line."""
    held = [one for one in now.customers.values() if one.held]
    names = ", ".join(f"{_name(one)} ({one.waiting:,} held)" for one in held[:NAMED])
    more = f" and {len(held) - NAMED} more" if len(held) > NAMED else ""
    if not now.slots:
        return f"{now.seconds:5.0f} s   in {now.sent_per_second:,.0f}/s   Spark is starting"
    return (
        f"{now.seconds:5.0f} s   in {now.sent_per_second:,.0f}/s   out {now.outputs_per_second:,.0f}/s   "
        f"behind {now.lag:,}   passed {now.passed:,}, {now.out_of_turn:,} out of turn   "
        f"paused: {names or 'none'}{more}"
    )


def _gate(now: Snapshot) -> list[Text | str | tuple[str, str]]:
    if not (now.paused or now.gate_wide or now.held):
        return ["open for all keys"]
    who = "the gate is paused" if now.gate_wide else f"{now.paused:,} paused"
    waits = f"   {now.held:,} orders held ({now.held_bytes / 1024:,.1f} KiB"
    return [(who, "yellow"), f"{waits}, the oldest for {now.held_seconds:,.0f} s)" if now.held else ""]


def _order(now: Snapshot) -> tuple[str, str]:
    if now.out_of_turn:
        return f"{now.out_of_turn:,} of {now.passed:,} out of turn", "bold red"
    return f"{now.passed:,} orders passed, each directly after the previous one of its customer", "green"


def _workers(now: Snapshot) -> list[str | tuple[str, str]]:
    """The processes of the slots, and the number of restarts."""
    named = " and ".join(map(str, now.workers)) or "(starting)"
    if not now.restarts:
        return [named]
    order = "every order still in turn, once" if not now.out_of_turn else "the order is broken"
    return [named, (f"   {now.restarts:,} restarted; {order}", "yellow")]


def _kill(now: Snapshot) -> list[str]:
    """A command that kills a worker, if one runs."""
    return (
        [f"kill -9 {now.workers[0]}   # a worker: Spark starts another, no order is lost"]
        if now.workers
        else []
    )


def _table(customers: list[Customer], rows: int) -> Group:
    """Several customers side by side. If there are too many, paused ones are preferred."""
    listed = sorted(customers, key=lambda one: not one.held)[: BLOCKS * rows]
    listed.sort(key=lambda one: one.name)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for _ in range(BLOCKS):
        for heading in ("customer", "orders", "total", "waiting"):
            table.add_column(Text(heading, "dim"), justify="left" if heading == "customer" else "right")
    height = -(-len(listed) // BLOCKS)
    for row in range(height):
        side_by_side = islice(listed, row, None, height)
        table.add_row(*(cell for one in side_by_side for cell in _cells(one)))
    more = len(customers) - len(listed)
    reasons = [
        Text(f"{_name(one)} is paused: {printable(one.reason)[:LONGEST_REASON]}", "yellow")
        for one in listed
        if one.reason
    ]
    return Group(table, *([Text(f"and {more:,} more", "dim")] if more else []), *reasons[:1])


def _cells(one: Customer) -> list[Text]:
    style = "yellow" if one.held else ""
    waiting = f"{one.waiting:,}" if one.held or one.waiting else ""
    return [Text(cell, style) for cell in (_name(one), f"{one.orders:,}", f"{one.cents / 100:,.2f}", waiting)]


def _output(one: Customer) -> str:
    return f"{_name(one)} {one.cents / 100:,.2f}"


def _name(one: Customer) -> str:
    name = printable(one.name)
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
