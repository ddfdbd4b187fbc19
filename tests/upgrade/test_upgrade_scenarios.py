"""Each reason for an upgrade: what a committed reader of the sink sees, and the rows after it."""

from __future__ import annotations

import pytest
from tests.upgrade.scenarios import SCENARIOS
from tests.upgrade.stories import STORY, send
from tests.upgrade.upgraded import added, check_live, seen, upgraded
from tests.upgrade.versions import PARTITIONS

from tidegate.testing import Driver


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_reader_sees_old_records_then_one_per_differing_key_then_live_ones(name: str) -> None:
    old, new = SCENARIOS[name]
    with Driver(old(), partitions=PARTITIONS, slots=2) as d:
        send(d, STORY[:50])
        d.run()
        before = seen(d.log, "out")
        entry, _ = upgraded(d, new(), "out")
        published = seen(d.log, "out")
        assert 0 < entry.differences["out"].differing == len(added(before, published))
        send(d, STORY[50:])
        d.run()
        live = added(published, seen(d.log, "out"))
        assert live
        check_live(d, new(), "out")
        d.stop()
        assert d.upgrade(new()) is None
