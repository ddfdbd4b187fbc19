"""Bugs of slots, tasks and gates that somebody could write; as in `seeded_bugs.py`, each must be noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.compute as pc
import pytest

from tidegate.gate.buffer import Buffer
from tidegate.gate.formats import Held
from tidegate.gate.step import GateStep
from tidegate.log.protocol import Fetched, Reader
from tidegate.runtime.driver.run import Run
from tidegate.runtime.output.sender import Sender
from tidegate.runtime.slot import commit as commit_module
from tidegate.runtime.slot import hand_over as hand_over_module
from tidegate.runtime.slot import slot as slot_module
from tidegate.runtime.slot.slot import Slot
from tidegate.runtime.task.merge import Merge
from tidegate.runtime.task.source_positions import SourcePositions
from tidegate.types import Offset, TopicPartition

Patch = pytest.MonkeyPatch


def tokens_without_the_attempt(patch: Patch) -> None:
    """A zombie of the same epoch looks like the one that took its place."""
    right = Run.slot

    def wrong(self: Run, *given: Any, attempt: int = 0, **named: Any) -> Slot:
        return right(self, *given, **named)

    patch.setattr(Run, "slot", wrong)


def positions_beyond_what_waits_in_memory(patch: Patch) -> None:
    def wrong(self: SourcePositions, merge: Merge) -> dict[TopicPartition, int]:
        for partition, taken in self.next.items():
            self.next[partition] = max(taken, merge.read_to(partition))
        return self.next

    patch.setattr(SourcePositions, "next_offsets", wrong)


def stream_time_not_restored(patch: Patch) -> None:
    patch.setattr(SourcePositions, "stream_time", property(lambda _: -1))


def outputs_of_failed_records_stay(patch: Patch) -> None:
    patch.setattr(Sender, "roll_back", lambda _: None)


def reader_begins_one_too_late(patch: Patch) -> None:
    right = Merge.read_to

    def wrong(self: Merge, partition: TopicPartition) -> int:
        found = right(self, partition)
        return found + 1 if found and not self.buffered_in(partition) else found

    patch.setattr(Slot, "_open_reader", _with(Merge, "read_to", wrong, Slot._open_reader))


def _with(owner: Any, name: str, wrong: Any, call: Callable[[Slot], None]) -> Callable[[Slot], None]:
    def inside(self: Slot) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, name, wrong)
            call(self)

    return inside


def gate_does_not_read_its_commands_first(patch: Patch) -> None:
    patch.setattr(Slot, "_read_commands", lambda *_: None)
    patch.setattr(Merge, "commands_behind", lambda _: False)


def gate_holds_nobody(patch: Patch) -> None:
    patch.setattr(GateStep, "blocks", lambda *_: False)


def gate_forgets_held_events_at_a_restart(patch: Patch) -> None:
    right = Buffer.__init__

    def wrong(self: Buffer, *given: Any) -> None:
        right(self, *given)
        self.keys, self.count, self.size = {}, 0, 0

    patch.setattr(Buffer, "__init__", wrong)


def gate_lets_the_newest_go_first(patch: Patch) -> None:
    right = Buffer.take

    def wrong(self: Buffer, key: bytes, limit: int) -> Iterator[Held]:
        return iter(list(right(self, key, limit))[::-1])

    patch.setattr(Buffer, "take", wrong)


def new_events_overtake_held_ones(patch: Patch) -> None:
    """A resumed key is open at once, although some of its events wait still."""
    right = GateStep.blocks

    def wrong(self: GateStep, key: bytes | None) -> bool:
        known = None if key is None else self._status.get(key)
        return right(self, key) and known is not None and known.state == "PAUSED"

    patch.setattr(GateStep, "blocks", wrong)


def records_handed_over_are_read_again(patch: Patch) -> None:
    """The reader does not continue behind what its task got in memory."""

    class Still(NotMoving):
        def seek(self, partition: TopicPartition, offset: Offset) -> None:
            """It stays where it is."""

    _with_reader(patch, Still)


def records_handed_over_across_a_gap(patch: Patch) -> None:
    """Another slot wrote in between, or the reader is behind: those records are skipped."""

    class Anywhere(NotMoving):
        def position(self, partition: TopicPartition) -> Offset:  # noqa: ARG002 - wherever it is
            return self.at.pop(0)

    _with_reader(patch, Anywhere)


class NotMoving:
    """A reader in all but what a subclass changes."""

    def __init__(self, inner: Reader, written: list[Fetched]) -> None:
        self.inner = inner
        self.at = [Offset(one.next - one.batch.num_rows) for one in written]

    def position(self, partition: TopicPartition) -> Offset:
        return self.inner.position(partition)

    def seek(self, partition: TopicPartition, offset: Offset) -> None:
        self.inner.seek(partition, offset)


def _with_reader(patch: Patch, make: type[NotMoving]) -> None:
    right = hand_over_module.hand_over

    def wrong(written: list[Fetched], reader: Any, owners: Any, most: int) -> bool:
        other: Any = make(reader, written)
        return right(written, other, owners, most)

    patch.setattr(slot_module, "hand_over", wrong)


def records_handed_over_with_offsets_one_too_high(patch: Patch) -> None:
    right = hand_over_module.with_offsets

    def wrong(appended: Any, first: Any) -> Iterator[Fetched]:
        for fetched in right(appended, first):
            offsets = pc.add(fetched.batch.column(0), 1)
            batch = fetched.batch.set_column(0, fetched.batch.schema.field(0), offsets)
            yield Fetched(fetched.partition, batch, fetched.next)

    patch.setattr(commit_module, "with_offsets", wrong)


SEEDED_IN_THE_RUNTIME: dict[str, Callable[[Patch], None]] = {
    "tokens without the attempt": tokens_without_the_attempt,
    "positions beyond what waits in memory": positions_beyond_what_waits_in_memory,
    "stream time not restored": stream_time_not_restored,
    "outputs of failed records stay": outputs_of_failed_records_stay,
    "the reader begins one too late": reader_begins_one_too_late,
    "gate does not read its commands first": gate_does_not_read_its_commands_first,
    "gate holds nobody": gate_holds_nobody,
    "gate forgets held events at a restart": gate_forgets_held_events_at_a_restart,
    "gate lets the newest go first": gate_lets_the_newest_go_first,
    "new events overtake held ones": new_events_overtake_held_ones,
    "records handed over are read again": records_handed_over_are_read_again,
    "records handed over across a gap": records_handed_over_across_a_gap,
    "records handed over with offsets one too high": records_handed_over_with_offsets_one_too_high,
}
