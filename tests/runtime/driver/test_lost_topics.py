"""An app is never started over on top of old state by itself: what is missing is named."""

from __future__ import annotations

import pytest
from tests.runtime.fleet import Fleet
from tests.runtime.lost_topics import STORIES, Story

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_start_after_a_loss(fleet: Fleet, story: Story) -> None:
    story(fleet)
