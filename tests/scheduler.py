"""Hands out units of tests to the processes of a run, in the order in which they were collected.

Apart from `distribution`: a run without pytest-xdist does not import it.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadScopeScheduling


class UnitScheduling(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Like `--dist loadfile`, with our units. A worker has one test in store and no more: what waits behind a
    long test could run elsewhere. (It needs that one to know which fixtures outlive the test in work.)"""

    def __init__(self, config: Any, log: Any, units: Path) -> None:
        super().__init__(config, log)
        self._file = units

    @functools.cached_property
    def _units(self) -> dict[str, str]:
        """Test -> unit; all workers have written it before the first call."""
        found: dict[str, str] = json.loads(self._file.read_text())
        return found

    def _split_scope(self, nodeid: str) -> str:
        return self._units[nodeid]

    def _reschedule(self, node: Any) -> None:
        if node.shutting_down:
            return
        if not self.workqueue:
            node.shutdown()
        elif self._pending_of(self.assigned_work[node]) <= 1:
            self._assign_work_unit(node)
