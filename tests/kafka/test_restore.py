"""What is promised of restores, promised on Kafka too: the same tests, on a real broker."""

from __future__ import annotations

from tests.state.test_restore_distrust import *  # noqa: F403 - collected here, with this folder's log
from tests.state.test_restore_replay import *  # noqa: F403
from tests.state.test_restore_slots import *  # noqa: F403
from tests.state.test_restore_steps import *  # noqa: F403
from tests.state.test_restore_zombies import *  # noqa: F403
