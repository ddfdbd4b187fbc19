"""Topics as declared: found, created, or refused."""

from __future__ import annotations

from contextlib import closing

import pytest

from tidegate.errors import LogError
from tidegate.log.ensure import ensure_topic
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicInfo, TopicSpec


class Raced(SqliteLog):
    """Somebody else creates each topic just before us, with five partitions."""

    def create(self, spec: TopicSpec) -> TopicInfo:
        super().create(TopicSpec(spec.name, 5, spec.config))
        return super().create(spec)


def test_a_topic_that_was_created_meanwhile_is_used_if_no_count_was_given() -> None:
    with closing(Raced()) as log:
        info = ensure_topic(log, "t", table=False, partitions=None, default=4, config={})
        assert info.partitions == 5
        with pytest.raises(LogError, match="partition-count"):
            ensure_topic(log, "u", table=False, partitions=4, default=4, config={})


def test_a_log_that_fails_is_not_taken_for_a_topic_that_is_missing() -> None:
    log = SqliteLog()
    log.close()
    with pytest.raises(LogError, match="closed"):
        ensure_topic(log, "t", table=True, partitions=None, default=4, config={})
