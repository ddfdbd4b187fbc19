"""What is promised of changelogs, promised on Kafka too: the same tests, on a real broker."""

from __future__ import annotations

from tests.state.test_changelog import *  # noqa: F403 - its tests are collected here, with this folder's log
