"""Wait for a cluster's id, which shows that a broker has answered."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

ASK_SECONDS = 0.1


def await_cluster_id(ask: Callable[[float], str | None], seconds: float) -> str | None:
    """Return the id, or None if it is not known after so many seconds; `ask` waits for it as long as its
    argument says.

    librdkafka may miss the answer if it arrives just when the wait begins. It then waits until its timeout,
    so it is asked again and again with a short one.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = ask(ASK_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._TIMED_OUT:
                return None
            found = None
        if found or time.monotonic() >= deadline:
            return found
