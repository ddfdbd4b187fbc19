"""Positions, shown as the offsets of a consumer group: for people and their tools alone.

Nothing reads them back. They expire after some days without a change, and hold nothing but an offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as Place

from tidegate.log.kafka.clients import Clients
from tidegate.types import Offset, TopicPartition

ASK_SECONDS = 10.0


class Mirror:
    """Writes offsets of groups, without waiting for it; whatever goes wrong is tried again next time."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._shown: dict[TopicPartition, Offset] = {}
        self._asked: Future[Any] | None = None

    def show(self, group: str, positions: Mapping[TopicPartition, Offset]) -> None:
        if self._asked is not None:
            if not self._asked.done():
                return
            if self._asked.exception() is not None:
                self._shown = {}
        changed = {one: at for one, at in positions.items() if self._shown.get(one) != at}
        if not changed:
            return
        places = [Place(one.topic, one.partition, at) for one, at in changed.items()]
        request = [ConsumerGroupTopicPartitions(group, places)]
        asked = self._clients.admin.alter_consumer_group_offsets(request, request_timeout=ASK_SECONDS)
        self._asked = asked[group]
        self._shown |= changed
