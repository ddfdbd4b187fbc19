"""The progress of a recalculation on stderr: one line that renews itself on a terminal, elsewhere a line
every ten seconds and one at the end."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.text import Text

from tidegate.text.render import printable

if TYPE_CHECKING:
    from tidegate.upgrade.progress import Progress

QUIET_SECONDS = 10.0
"""Between two lines where there is no terminal."""


class ProgressLine:
    """Shows each progress that it is called with. The line is gone after the `with` block."""

    def __init__(self, app: str, *, quiet_seconds: float = QUIET_SECONDS) -> None:
        self._app = app
        self._quiet_seconds = quiet_seconds
        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._next_line = time.monotonic() + quiet_seconds
        self._printed: Progress | None = None
        self._last: Progress | None = None

    def __enter__(self) -> ProgressLine:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()
        if self._last is not None and self._last is not self._printed:
            self._print(self._last)

    def __call__(self, progress: Progress) -> None:
        self._last = progress
        if self._console.is_terminal:
            bar = ProgressBar(total=max(progress.to_do, 1), completed=progress.done, width=30)
            self._live.update(Group(self._text(progress), bar), refresh=True)
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + self._quiet_seconds
            self._print(progress)

    def _print(self, progress: Progress) -> None:
        self._printed = progress
        self._console.print(self._text(progress), soft_wrap=True)

    def _text(self, progress: Progress) -> Text:
        from tidegate.upgrade.progress import progress_text  # most commands do without what it imports

        return Text(printable(f"{self._app}: recalculated {progress_text(progress)}"), "dim")
