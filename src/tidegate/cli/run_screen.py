"""The live view of a running app: restores with a bar, then rates and lag of each slot."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tidegate.cli.output import note, say_json

if TYPE_CHECKING:
    from tidegate.runtime.driver.slot_overview import SlotOverview

WAITING = "waiting for the log"


class RunScreen:
    """On a terminal a table that renews itself; else, and with --json, a line when the state changes."""

    def __init__(self, app: str, *, json: bool) -> None:
        self._app = app
        self._json = json
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._state = ""
        self._warned = 0

    def __enter__(self) -> RunScreen:
        if self._terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._terminal:
            self._live.stop()

    def say(self, text: str) -> None:
        if not self._json:
            note(f"{self._app}: {text}")

    def show(self, state: str, view: SlotOverview) -> None:
        for warning in list(view.warnings)[self._warned :]:
            self._warned += 1
            self.say(f"[{warning.code}] {warning.message}  Do: {warning.hint}")
        trouble = view.log_trouble
        if trouble is not None:
            if self._state != WAITING:
                self.say(f"[{trouble.code}] {trouble.message}  Do: {trouble.hint}")
            state = WAITING
        if self._terminal:
            self._live.update(self._table(state, view), refresh=True)
        elif state != self._state:
            self._tell(state, view)
        self._state = state

    def ended(self, state: str, view: SlotOverview) -> None:
        self.say(f"{state}; {view.records:,} records, {view.restarts} restarts of slots")

    @property
    def _terminal(self) -> bool:
        return self._console.is_terminal and not self._json

    def _tell(self, state: str, view: SlotOverview) -> None:
        if self._json:
            say_json({"app": self._app, "state": state, "slots": len(view.landings)})
        else:
            note(f"{self._app}: {state}, {len(view.landings)} slots")

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
                cells.append(f"silent {silent:.0f} s")  # its last numbers are no news: see `tidegate lag`
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
        for _, failure in list(view.failures)[-2:]:
            parts.append(Text(f"slot {failure.slot}: [{failure.code}] {failure.message}", "red"))
        return Group(*parts)
