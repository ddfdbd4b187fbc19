"""Add the nodes of `app.model(name)` to a draft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from tidegate.dsl.draft import Draft
from tidegate.dsl.inferred import type_of
from tidegate.dsl.location import here
from tidegate.dsl.types_of import UNKNOWN, parameter_of, returned_by, without_none
from tidegate.errors import ConfigError
from tidegate.log import names
from tidegate.log.names import check_name
from tidegate.models.formats import ModelEvent
from tidegate.models.reserved import RESERVED
from tidegate.models.row import ModelRow
from tidegate.serde import Json, MsgPack
from tidegate.serde.plain import PLAIN
from tidegate.stores import key_value
from tidegate.topics import Topic
from tidegate.topology.node import Node, NodeKind, OnError, mistake

MAX_STATE = 512 << 10
LARGEST_MAX_STATE = 4 << 20
_ROOM = 256 << 10
"""For stamps, outcomes and headers, besides twice the state."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The options of a model."""

    name: str
    initial: Callable[[], Any]
    reducer: Callable[[Any, Any], Any]
    hash: Callable[[Any, str, Any], str] | None
    max_state: int
    partitions: int | None
    on_error: OnError | None

    def check(self, node: Node) -> None:
        """Raise TopologyError, with the user's line, for an invalid option."""
        try:
            check_name("model", self.name)
        except ConfigError as cause:
            raise mistake(cause.code, node, cause.message, cause.hint) from cause
        if self.name in RESERVED:
            message = f"the server has a path /{self.name} of its own"
            raise mistake("reserved-name", node, message, "choose another name for the model")
        if type(self.max_state) is not int or not 1 <= self.max_state <= LARGEST_MAX_STATE:
            hint = f"use a number of bytes up to {LARGEST_MAX_STATE:,}"
            raise mistake("bad-option", node, f"max_state={self.max_state!r}", hint)


def add_model(plan: Draft, parent: int | None, options: ModelOptions, diff: Any, *, appendable: bool) -> Node:
    """Add the model and its topics. `parent` is the stream of its diffs, `diff` their declared type."""
    probe = Node(-1, NodeKind.MODEL, () if parent is None else (parent,), here(), options.name)
    options.check(probe)
    state_type = returned_by(options.initial)
    if state_type is UNKNOWN:
        state_type = without_none(returned_by(options.reducer))
    diff_type = type_of(diff)
    if diff_type is UNKNOWN:
        diff_type = parameter_of(options.reducer, 1)
    state_schema = _schema(probe, "states", state_type)
    diff_schema = _schema(probe, "diffs", diff_type)
    topics = {what: names.model(plan.app, options.name, what) for what in ("requests", "events")}
    largest = {"max.message.bytes": str(2 * options.max_state + _ROOM)}
    lenient = {"message.timestamp.after.max.ms": str(2**63 - 1), **largest}
    requests: Topic[str, bytes] = Topic(
        topics["requests"], bytes, partitions=options.partitions, config=lenient
    )
    events: Topic[str, ModelEvent] = Topic(topics["events"], Json[ModelEvent](), config=lenient)
    # A request that cannot be decided on must not stop the app.
    read = plan.add(NodeKind.MODEL_REQUESTS, topic=requests, on_error="dead-letter", model=options.name)
    functions: dict[str, Any] = {"initial": options.initial, "reducer": options.reducer}
    if options.hash is not None:
        functions["hash"] = options.hash
    model = plan.add(
        NodeKind.MODEL,
        [*([] if parent is None else [parent]), read.id],
        name=options.name,
        functions=functions,
        stores=[key_value(options.name, MsgPack[ModelRow](), key=PLAIN[str]).with_changelog(largest)],
        topics=topics,
        state_type=Any if state_type is UNKNOWN else state_type,
        diff_type=Any if diff_type is UNKNOWN else diff_type,
        state_schema=state_schema,
        diff_schema=diff_schema,
        max_state=options.max_state,
        appendable=appendable,
    )
    plan.add(NodeKind.SINK, [model.id], topic=events, model=options.name)
    return model


def _schema(node: Node, what: str, declared: Any) -> dict[str, Any]:
    """Return the JSON schema of a type; raise if JSON cannot hold it."""
    if declared is UNKNOWN or declared is Any:
        return {}
    try:
        msgspec.json.Decoder(declared)
        return msgspec.json.schema(declared)
    except (TypeError, ValueError) as error:
        message = f"its {what} cannot be read from JSON: {error}"
        raise mistake(
            "missing-serde", node, message[:300], "use a Struct, a dataclass, dict or list"
        ) from error
