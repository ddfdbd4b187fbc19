"""Refuse the start of an app that is not the one that ran before, with what differs."""

from __future__ import annotations

from tidegate.changes.changes import Changes
from tidegate.changes.summary import clauses
from tidegate.errors import ConfigError, TidegateError, UpgradeError

SHOWN = 8
"""How many differences an error lists."""


def refusal(changes: Changes) -> TidegateError:
    """Return the error for a start with these changes: UpgradeError `changed-app`, or ConfigError `id-taken`
    if the two versions have no component in common."""
    if shares_nothing(changes):
        return ConfigError(
            "id-taken",
            f"another app ran here as {changes.app!r}: no step, store or output of it is in this one",
            f"use a new app id; or delete the other one with: tidegate reset {changes.app}",
        )
    found = clauses(changes)
    more = f"; and {len(found) - SHOWN} more" if found[SHOWN:] else ""
    return UpgradeError(
        "changed-app",
        f"app {changes.app!r} is not the one that ran here before: {'; '.join(found[:SHOWN])}{more}",
        "tidegate plan shows what that means; tidegate upgrade carries it out, in tests d.upgrade(app). Or "
        f"start over with: tidegate reset {changes.app}; or use a new app id",
    )


def shares_nothing(changes: Changes) -> bool:
    """Whether every component is either new or gone."""
    verdicts = {component.verdict for component in changes.components}
    return verdicts == {"new", "gone"}
