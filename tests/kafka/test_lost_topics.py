"""What `tests/runtime/test_lost_topics.py` shows for the embedded log, on a broker."""

from __future__ import annotations

import pytest
from tests.runtime.fleet import Fleet
from tests.runtime.lost_topics import STORIES, Story


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_start_after_a_loss(fleet: Fleet, story: Story) -> None:
    story(fleet)
