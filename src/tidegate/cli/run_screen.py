"""What `tidegate run` prints: a line for each event, and on a terminal a table of the slots below them."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tidegate.cli.output import print_json
from tidegate.cli.run_events import RunEvents
from tidegate.text.render import printable

if TYPE_CHECKING:
    from tidegate.runtime.driver.slot_overview import SlotOverview

WAITING = "waiting for the log"


class RunScreen:
    """Prints a line for each event, and for each change of the state, which a terminal shows in a live table
    instead. With --json each line is an object on stdout."""

    def __init__(self, app: str, *, json: bool) -> None:
        self._app = app
        self._json = json
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._state = ""
        self._events = RunEvents(app)

    def __enter__(self) -> RunScreen:
        if self._terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            self._live.stop()

    def print_line(self, text: str, style: str = "dim") -> None:
        """Print one line for people, above the table."""
        if not self._json:
            self._console.print(Text(printable(f"{self._app}: {text}"), style), soft_wrap=True)

    def show(self, state: str, view: SlotOverview) -> None:
        """Show the state of the run, and the events since the last call."""
        self.show_events(view)
        state = state if view.log_trouble is None else WAITING
        if self._terminal:
            self._live.update(self._table(state, view), refresh=True)
        elif state != self._state:
            self._print_state(state, view)
        self._state = state

    def show_events(self, view: SlotOverview) -> None:
        """Print the events since the last call."""
        for line in self._events.new(view):
            if self._json:
                print_json({"app": self._app, "event": line.event, **line.fields})
            else:
                self.print_line(line.text, line.style)

    def ended(self, state: str, view: SlotOverview) -> None:
        """Print the outcome of the run."""
        self.print_line(f"{state}; {view.records:,} records, {view.restarts} restarts of slots")

    @property
    def _terminal(self) -> bool:
        return self._console.is_terminal and not self._json

    def _print_state(self, state: str, view: SlotOverview) -> None:
        if self._json:
            print_json({"app": self._app, "state": state, "slots": len(view.landings)})
        else:
            self.print_line(f"{state}, {len(view.landings)} slots")

    def _table(self, state: str, view: SlotOverview) -> Group:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in ("slot", "host", "tasks", "records/s", "records", "lag", "skipped"):
            table.add_column(Text(heading, "dim"), justify="left" if heading in ("slot", "host") else "right")
        wanted = done = 0
        for slot, landing in sorted(view.landings.items()):
            numbers = view.numbers.get(slot)
            cells = [str(slot), landing.host]
            silent = view.silent_seconds(slot)
            if silent is not None:
                cells.append(f"silent {silent:.0f} s")  # its last numbers are out of date
            elif numbers is not None:
                wanted, done = wanted + numbers.to_restore, done + numbers.restored
                cells += [
                    f"{numbers.running}/{numbers.running + numbers.restoring}",
                    f"{numbers.per_second:,.0f}",
                    f"{numbers.records:,}",
                    f"{numbers.lag:,}",
                    f"{numbers.skipped:,}",
                ]
            table.add_row(*(Text(cell) for cell in cells))
        parts: list[Any] = [Text.assemble((self._app, "bold cyan"), f"  {state}"), table]
        if wanted > done:
            parts.insert(1, Text(f"restoring {done:,} of {wanted:,}"))
            parts.insert(2, ProgressBar(total=wanted, completed=done, width=40))
        return Group(*parts)
