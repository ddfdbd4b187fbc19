"""A plan as text: one line for each thing that differs or is carried over, then what happens, what must be
decided, and what cannot be seen.

    orders: generation 3 -> 4
      + source phone-orders   new, complete
      ~ store totals          its input filter changed (orders.py:27)
      = gate orders-gate      kept; 214 held events stay held
      recalculate orders-gate from 1,204,331 records; publish to customer-totals what differs
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.changes.changes import Change, Thing
from tidegate.changes.summary import own_changes, reason_text
from tidegate.upgrade.plan import ComponentPlan, GatePlan, Reads, UpgradePlan

SIGNS = {"new": "+", "gone": "-", "changed": "~", "kept": "="}
REASONS_SHOWN = 2


def plan_lines(plan: UpgradePlan) -> list[str]:
    """Return the lines of a plan."""
    return [_heading(plan), *(f"  {line}" for line in _body(plan))]


def _heading(plan: UpgradePlan) -> str:
    if not plan.before:
        return f"{plan.app}: first start"
    if plan.before == plan.after:
        return f"{plan.app}: generation {plan.before}, nothing to do"
    return f"{plan.app}: generation {plan.before} -> {plan.after}"


def _body(plan: UpgradePlan) -> Iterator[str]:
    rows = [row for component in plan.components for row in _rows(plan, component)]
    width = max((len(what) for what, _ in rows), default=0)
    yield from (f"{what:<{width}}   {text}" for what, text in rows)
    if plan.changes.kinds and plan.before:
        yield f"kind of change: {', '.join(plan.changes.kinds)}"
    for component in plan.components:
        yield from _actions(component)
    for question in plan.questions:
        yield f"? [{question.code}] {question.text}  Do: {question.consent}"
    for note in plan.notes:
        where = f" ({note.location})" if note.location else ""
        yield f"! {note.text}{where}" + (f"  Do: {note.hint}" if note.hint else "")


def _rows(plan: UpgradePlan, component: ComponentPlan) -> Iterator[tuple[str, str]]:
    """Yield the things of a component that differ, and the gates that are carried over."""
    change = plan.changes.component(component.id)
    reads = {one.topic: one for one in component.reads}
    gates = {gate.name: gate for gate in component.gates}
    own = own_changes(change)
    behind = [one for one in change.of(Thing.STORE) if one.verdict == "changed" and one not in own]
    for one in [*own, *behind]:
        if one.thing is Thing.GATE and one.verdict == "changed":
            continue
        yield f"{SIGNS[one.verdict]} {_named(one)}", _how(one, reads)
    for name, gate in gates.items():
        if gate.verdict in ("kept", "changed") and (component.action != "keep" or gate.held):
            yield f"{SIGNS['kept']} gate {name}", _held(gate)
    for reason in change.reasons:
        yield f"~ {component.id}", reason_text(reason)


def _named(change: Change) -> str:
    if change.thing in (Thing.SOURCE, Thing.SINK, Thing.STORE, Thing.GATE, Thing.MODEL):
        return f"{change.thing} {change.name}"
    return change.label.replace('"', "")


def _how(change: Change, reads: dict[str, Reads]) -> str:
    where = f" ({change.location})" if change.location else ""
    if change.verdict == "new" and change.thing is Thing.SOURCE:
        read = reads.get(change.name)
        return f"new{_completeness(read)}{where}"
    if change.verdict in ("new", "gone"):
        return f"{change.verdict}{where}"
    texts = list(dict.fromkeys(reason_text(reason) for reason in change.reasons))
    more = f"; and {len(texts) - REASONS_SHOWN} more" if texts[REASONS_SHOWN:] else ""
    return "; ".join(texts[:REASONS_SHOWN]) + more


def _completeness(read: Reads | None) -> str:
    if read is None:
        return ", read through the gate"
    return ", complete" if read.complete else ", older records were deleted"


def _held(gate: GatePlan) -> str:
    held = "no event is held" if not gate.held else f"{gate.held:,} held events stay held"
    return f"kept; {held}"


def _actions(component: ComponentPlan) -> Iterator[str]:
    if component.action == "keep":
        yield f"keep {component.id}: it reads nothing again"
        return
    tables = [one for one in component.publishes if one.kind == "table"]
    events = [one.topic for one in component.publishes if one.kind == "events"]
    if component.action == "remove":
        yield f"remove {component.id}"
        return
    verb = "recalculate" if component.action == "recalculate" else "start"
    named = ", ".join(component.stores) or component.id
    yield f"{verb} {named} from {_records(component)}" + _published(component, [one.topic for one in tables])
    if component.action == "recalculate":
        if events:
            yield f"publish nothing again to {', '.join(events)}: events are sent from the switch on"
        for one in component.order_sensitive:
            yield f"order matters: {one.label} ({one.location}): {one.why}"
        for model in component.models:
            yield f"model {model.name}: each id whose state differs gets one more version; tokens stay valid"


def _published(component: ComponentPlan, tables: list[str]) -> str:
    if not tables or component.action != "recalculate":
        return ""
    rows = sum(one.rows_at_most for one in component.publishes if one.kind == "table" and not one.new)
    return f"; publish to {', '.join(tables)} what differs from at most {rows:,} rows"


def _records(component: ComponentPlan) -> str:
    total = sum(one.records for one in component.reads)
    listed = ", ".join(f"{one.topic} {one.records:,}" for one in component.reads)
    return f"{total:,} records" + (f" ({listed})" if component.reads[1:] else "")
