"""What a gate must do with its events (I9): hold those of paused keys, and let all others pass, in order."""

from __future__ import annotations

import msgspec
from tests.simulator.logs import Rows
from tests.simulator.program import ADMITTED, INPUT, Op
from tests.simulator.violation import demand

from tidegate.log.positions import Position
from tidegate.types import TopicPartition


class GateTruth:
    """What came to the gate, and what it let through. Statuses are noted when they are written."""

    def __init__(self, partitions: int) -> None:
        self.paused: set[str] = set()
        self._ever_paused: set[str] = set()
        self._behind_a_pause: dict[str, set[int]] = {}
        self._partitions = range(partitions)
        self._came: dict[str, list[int]] = {}
        self._passed: dict[str, list[int]] = {}
        self._offsets: dict[int, list[tuple[int, str]]] = {number: [] for number in self._partitions}

    def pause(self, key: str) -> None:
        self.paused.add(key)
        self._ever_paused.add(key)

    def resume(self, key: str) -> None:
        self.paused.discard(key)
        self._behind_a_pause.pop(key, None)

    def absorb(self, fresh: Rows) -> None:
        """An event that came behind a pause passes only after a resume; what passes is in order."""
        for number in self._partitions:
            for row in fresh.get(TopicPartition(INPUT, number), ()):
                op = msgspec.json.decode(row.value or b"", type=Op)
                self._came.setdefault(op.key, []).append(op.number)
                self._offsets[number].append((row.offset, op.key))
                if op.key in self.paused:
                    self._behind_a_pause.setdefault(op.key, set()).add(op.number)
            for row in fresh.get(TopicPartition(ADMITTED, number), ()):
                if row.value is not None:
                    self._let_through(msgspec.json.decode(row.value, type=Op))

    def _let_through(self, op: Op) -> None:
        passed, came = self._passed.setdefault(op.key, []), self._came.get(op.key, [])
        passed.append(op.number)
        demand(passed == came[: len(passed)], "I4", f"{op.key} came as {came}, and passed as {passed}")
        held = self._behind_a_pause.get(op.key, ())
        demand(op.number not in held, "I9", f"{op.key} is paused, and {op.number}, which came later, passed")

    def check(self, partition: int, position: Position) -> None:
        """Of a key that was never paused everything below a position has passed."""
        until = position.sources[INPUT][partition]
        taken: dict[str, int] = {}
        for offset, key in self._offsets[partition]:
            if offset < until:
                taken[key] = taken.get(key, 0) + 1
        for key, count in taken.items():
            if key not in self._ever_paused:
                passed = len(self._passed.get(key, ()))
                demand(passed == count, "I9", f"{count} events of {key} were taken, and {passed} passed")

    def check_all_passed(self) -> None:
        """In the end, with every key resumed, the gate might as well not have been there."""
        for key, came in self._came.items():
            passed = self._passed.get(key, [])
            demand(passed == came, "I9", f"{key} came as {came}, and passed as {passed}")
