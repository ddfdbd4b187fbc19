"""Killed at any time on Kafka: the same story, with a transaction of the broker's open at each kill."""

from __future__ import annotations

from tests.state.test_sigkill import *  # noqa: F403 - its tests are collected here, with this folder's log
