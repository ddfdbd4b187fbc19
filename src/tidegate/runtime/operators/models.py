"""The step of a model: it keeps one row per id, and sends one event for each new version."""

from __future__ import annotations

from typing import Any

from tidegate.errors import SerdeError
from tidegate.log.partitioner import partition_for
from tidegate.models.document import Documents
from tidegate.models.fold import Fold
from tidegate.models.formats import LONGEST_ID, decode_request
from tidegate.models.row import NEVER, ModelRow
from tidegate.models.step import Step, model_event
from tidegate.runtime.operators.context import Handler
from tidegate.runtime.operators.kept_rows import initial_value
from tidegate.runtime.operators.step import Chain, R, needed
from tidegate.topology.node import Node


def model(chain: Chain, node: Node, parent: int) -> Handler:
    """Return the handler of diffs, or of requests, which are the last parent."""
    host, forward, options = chain.host, chain.forward(node), node.options
    store: Any = host.store(node.stores[0])
    partitions = host.partitions_of_model(node.name)
    fold = Fold(
        Documents(options["state_type"], options["max_state"]),
        initial_value(node.functions["initial"]),
        node.functions["reducer"],
        node.functions.get("hash"),
        options["diff_type"],
    )

    def keep(id: str, before: ModelRow, step: Step, record: R) -> None:
        if step.row is before:
            return
        store.put(id, step.row)
        if step.patch is not None:
            event = model_event(id, before, step.row, step.patch, record.timestamp, host.origin())
            forward(record.with_value(event))

    def diff(record: R) -> None:
        found = _checked_id(needed(node, record.key))
        before = store.get(found) or NEVER
        step = fold.remove(before) if record.value is None else fold.apply(before, record.value)
        keep(found, before, step, record)

    def request(record: R) -> None:
        found = _checked_id(needed(node, record.key))
        home = partition_for(found.encode(), partitions)
        if home != record.partition:
            raise SerdeError(
                "wrong-partition",
                f"a request in partition {record.partition} for an id that belongs to partition {home}",
                "use the partitioner of Kafka's Java client; in librdkafka: partitioner=murmur2_random",
            )
        wanted, before = decode_request(record.value), store.get(found) or NEVER
        accepted = None if wanted.expect is None else host.was_accepted(node.name, found, wanted.request)
        keep(found, before, fold.decide(found, before, wanted, accepted=accepted), record)

    return request if parent == node.parents[-1] else diff


def _checked_id(id: str) -> str:
    size = len(id.encode())
    if not 0 < size <= LONGEST_ID or "\0" in id:
        what = "with a NUL character" if "\0" in id else f"of {size:,} bytes"
        hint = f"use 1 to {LONGEST_ID} bytes of text without NUL as the key"
        raise SerdeError("bad-id", f"an id {what}", hint)
    return id
