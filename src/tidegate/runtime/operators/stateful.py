"""Steps of streams that use stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.runtime.operators.change import Change
from tidegate.runtime.operators.context import Handler, StepContext
from tidegate.runtime.operators.kept_rows import KeptRows, initial_value, wants_old
from tidegate.runtime.operators.step import Chain, R, changed, checked, needed
from tidegate.topology.node import Node


def aggregate(chain: Chain, node: Node) -> Handler:
    kept, forward = KeptRows(node.stores[0], chain.host.store(node.stores[0])), chain.forward(node)
    step, ignored, with_old = aggregation(node), chain.host.null_values, wants_old(chain, node)
    cell, plain = chain.replaced(node.stores[0].name), kept.plain
    encode_key, encode, decode, load, save = kept.key, kept.encode, kept.decode, kept.load, kept.save

    def handle(record: R) -> None:
        if record.value is None:
            ignored.count += 1
            return
        key = encode_key(needed(node, None) if record.key is None else record.key)
        before, replaced_at = load(key)
        old = None if before is None else decode(before)
        new = step(old, record.value)
        after = None if new is None else encode(new)
        at = max(replaced_at, record.timestamp)
        save(key, after, at)
        if type(old) is not plain and with_old:
            old = kept.read(before)
        result = changed(record, Change(old, new if type(new) is plain else kept.read(after)), at)
        if cell is None:
            forward(result)
        else:
            cell.forward(key, before, replaced_at, lambda: forward(result))

    return handle


def process(chain: Chain, node: Node) -> Handler:
    step = node.functions["step"]
    children = chain.topology.children(node.id)
    named = {child.name: chain.handler(child, node.id) for child in children if child.name}
    context = StepContext(chain.host, node, chain.forward(node), named, checked)
    processor: Any = step() if isinstance(step, type) else step
    chain.add_step(processor, context)
    call = processor.process if isinstance(step, type) else step
    for timers in (store for store in node.stores if store.clock is not None):
        chain.host.call_timers(timers, lambda key, at: processor.on_timer(key, at, context))

    def handle(record: R) -> None:
        call(record, context)

    return handle if node.on_error is None else _with_policy(handle, node.on_error)


def join(chain: Chain, node: Node, parent: int) -> Handler:
    if parent != node.parents[0]:
        return _ignore
    getter = chain.getter(chain.topology.nodes[node.parents[1]])
    function, forward, left = node.functions["function"], chain.forward(node), node.options["left"]
    ignored = chain.host.null_values

    def handle(record: R) -> None:
        if record.value is None:
            ignored.count += 1
            return
        other = None if left and record.key is None else getter(needed(node, record.key))[0]
        if other is not None or left:
            forward(record.with_value(function(record.value, other)))

    return handle


def aggregation(node: Node) -> Callable[[Any, Any], Any]:
    """Return the function (state or None, value) -> new state."""
    functions, built_in = node.functions, node.options["built_in"]
    if built_in == "count":
        return lambda old, value: 1 if old is None else old + 1  # noqa: ARG005
    if built_in == "sum":
        number, zero = functions["number"], functions["initial"]()
        return lambda old, value: (zero if old is None else old) + number(value)
    if built_in == "reduce":
        reduce = functions["reduce"]
        return lambda old, value: value if old is None else reduce(old, value)
    initial, add = initial_value(functions["initial"]), functions["add"]
    return lambda old, value: add(initial() if old is None else old, value)


def addition(node: Node) -> Callable[[Any, Any], Any]:
    """Return what `sum` does with each number: the function (sum or None, number) -> new sum."""
    zero = node.functions["initial"]()
    return lambda old, number: (zero if old is None else old) + number


def _ignore(record: R) -> None:
    """Ignore a change of the table: it does not affect records that have passed."""


def _with_policy(handle: Handler, policy: str) -> Handler:
    """Mark errors of this step with its own policy; the innermost one counts."""

    def guarded(record: R) -> None:
        try:
            handle(record)
        except Exception as error:
            if not hasattr(error, "tidegate_policy"):
                error.tidegate_policy = policy  # type: ignore[attr-defined]
            raise

    return guarded
