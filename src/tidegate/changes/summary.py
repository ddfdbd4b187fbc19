"""Changes as short clauses for people, the causes first: what was edited, where, and what it reaches."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.changes.changes import Change, Changes, ComponentChange, Reason, Thing

NODES_NAMED = 2
"""How many steps are named that reach one unit."""


def clauses(changes: Changes) -> list[str]:
    """Return one clause for each difference. What follows from another difference is left out: stores and
    sinks behind a changed step, what comes or goes with its step, gate or model, and components that share a
    table topic with a changed one."""
    shown = [change for component in changes.components for change in own_changes(component)]
    found = [*_units(shown), *(text for change in shown for text in _of(change))]
    found += [
        reason.what for component in changes.components for reason in component.reasons if not reason.upstream
    ]
    return list(dict.fromkeys(found))


def own_changes(component: ComponentChange) -> list[Change]:
    """Return the changes of a component that are no consequence of others."""
    steps = {
        change.name for change in component.changes if change.thing is not Thing.STORE and _comes(change)
    }
    return [
        change
        for change in component.changes
        if change.verdict != "kept"
        and not (
            (change.part_of and change.part_of in steps)
            or (change.thing is Thing.STORE and _goes_with(change, steps))
        )
        and not (change.reasons and all(reason.upstream for reason in change.reasons))
    ]


def reason_text(reason: Reason) -> str:
    """Return a reason with its source lines."""
    lines = _lines(reason)
    return f"{reason.what} ({lines})" if lines else reason.what


def _comes(change: Change) -> bool:
    return change.verdict in ("new", "gone")


def _goes_with(change: Change, steps: set[str]) -> bool:
    """Whether a store is new or gone because a step, gate or model is: it is named after it."""
    return _comes(change) and any(
        change.name == step or change.name.startswith(f"{step}-") for step in steps if step
    )


def _units(changes: list[Change]) -> Iterator[str]:
    """Yield each unit of source code that differs, once, with the steps that reach it."""
    users: dict[str, list[Change]] = {}
    for change in changes:
        for reason in change.reasons:
            if reason.unit:
                users.setdefault(reason_text(reason), []).append(change)
    for text, found in users.items():
        unique = list({(change.label, change.location): change for change in found}.values())
        named = ", ".join(f"{change.label} ({change.location})" for change in unique[:NODES_NAMED])
        more = len(unique) - NODES_NAMED
        yield f"{text}, used by {named}" + (f" and {more} more" if more > 0 else "")


def _of(change: Change) -> Iterator[str]:
    if change.verdict == "new":
        yield f"new {change.label}" + (f" ({change.location})" if change.location else "")
    elif change.verdict == "gone":
        yield f"{change.label} is gone" + (f" (it was at {change.location})" if change.location else "")
    else:
        how = [reason.what for reason in change.reasons if not reason.unit and not reason.upstream]
        if how:
            where = f" ({change.location})" if change.location else ""
            yield f"{change.label}{where}: {', '.join(dict.fromkeys(how))}"


def _lines(reason: Reason) -> str:
    if reason.after and reason.before and reason.after != reason.before:
        return f"{reason.after}, was {reason.before}"
    return reason.after or (f"it was at {reason.before}" if reason.before else "")
