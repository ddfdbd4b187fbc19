"""What the driver of an app promises, promised on Kafka too: the same tests, with slots as threads."""

from __future__ import annotations

from tests.runtime.test_coordinator import *  # noqa: F403 - its tests are collected here, with this folder's log
