"""The checks of upgrades find the bugs that are easily made in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.upgrade import test_upgrade_gates, versions
from tests.upgrade.scenarios import SCENARIOS
from tests.upgrade.stories import STORY, send
from tests.upgrade.test_upgrade_events import check_events, check_foreign_rows
from tests.upgrade.test_upgrade_killed import active, kill_at, reached, started
from tests.upgrade.upgraded import seen, upgraded
from tests.upgrade.versions import PARTITIONS

from tidegate.log.positions import Position
from tidegate.testing import Driver
from tidegate.upgrade import compared_rows, handover, publication, table_publication, upgrades


def check_scenario() -> None:
    old, new = SCENARIOS["other key"]
    with Driver(old(), partitions=PARTITIONS) as d:
        send(d, STORY)
        d.run()
        upgraded(d, new(), "out")


def check_gate() -> None:
    test_upgrade_gates.test_nothing_passes_twice_and_held_events_come_in_order(test_upgrade_gates.before_it)


def check_killed() -> None:
    """Killed between publications: nothing was published while the old generation is in force."""
    second = [number for number, point in enumerate(reached()) if point == "upgrade.7"][1]
    with started() as d:
        before = seen(d.log, "out")
        assert kill_at(d, second, versions.chained(3))
        assert (active(d) == 1) == (seen(d.log, "out") == before)


def tombstone_forgotten(patch: pytest.MonkeyPatch) -> None:
    corrections = table_publication.corrections

    def forgetful(differing: pa.RecordBatch, owner: bytes) -> list[pa.RecordBatch]:
        return [batch for batch in corrections(differing, owner) if not batch.column("value").null_count]

    patch.setattr(publication, "corrections", forgetful)


def owner_ignored(patch: pytest.MonkeyPatch) -> None:
    def careless(batch: pa.RecordBatch, owner: bytes | None) -> Any:
        return pa.repeat(pa.scalar(True), batch.num_rows)

    patch.setattr(compared_rows, "owned_rows", careless)


def pins_ignored(patch: pytest.MonkeyPatch) -> None:
    """The recalculation goes on to the ends of the sources."""
    cut = handover.stopped_cut
    patch.setattr(upgrades, "stopped_cut", lambda run, known, _, *rest: cut(run, known, {}, *rest))


def positions_of_gates_dropped(patch: pytest.MonkeyPatch) -> None:
    position: Any = handover._position

    def forgetful(*args: Any) -> Position:
        *others, replayed, _, _ = args
        found: Position = position(*others, replayed, None, {})
        return found

    patch.setattr(handover, "_position", forgetful)


def decided_after_publishing(patch: pytest.MonkeyPatch) -> None:
    decide = upgrades._Upgrade._decide

    def late(self: Any, entry: Any, made: Any, positions: Any) -> None:
        publication.publish(self._log, self._claim.writer, self._app, entry, self._clock)
        decide(self, entry, made, positions)

    patch.setattr(upgrades._Upgrade, "_decide", late)


def published_twice(patch: pytest.MonkeyPatch) -> None:
    corrections = table_publication.corrections

    def repeating(differing: pa.RecordBatch, owner: bytes) -> list[pa.RecordBatch]:
        return 2 * corrections(differing, owner)

    patch.setattr(publication, "corrections", repeating)


Bug = Callable[[pytest.MonkeyPatch], None]
BUGS: dict[Bug, Callable[[], None]] = {
    tombstone_forgotten: check_scenario,
    owner_ignored: check_foreign_rows,
    pins_ignored: check_events,
    positions_of_gates_dropped: check_gate,
    decided_after_publishing: check_killed,
    published_twice: check_scenario,
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_seeded_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError):
        BUGS[bug]()


def test_without_a_bug_the_check_of_kills_passes() -> None:
    check_killed()
