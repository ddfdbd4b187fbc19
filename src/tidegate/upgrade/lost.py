"""Why a process that upgrades an app cannot go on: someone cancelled the upgrade, or another process took the
app over.

The process itself only finds that its writer is fenced, that topics or folders of its recalculation are gone,
or that its slots have stopped. Who did that is in the control topic.
"""

from __future__ import annotations

from tidegate.errors import TidegateError, UpgradeError
from tidegate.log.protocol import Log
from tidegate.runtime.topics.control import ROLE, Control
from tidegate.runtime.topics.decisions import cancelled_by
from tidegate.runtime.topics.manifests import visible_control
from tidegate.upgrade.decision_text import by_text


def lost_upgrade(log: Log, app: str, epoch: int, candidate: int | None) -> UpgradeError | None:
    """Return the error for an upgrade that was cancelled or replaced; None for one that is still in force, or
    if the log does not respond. `candidate` is the generation that it prepares, as soon as there is one."""
    try:
        control = visible_control(log, app)
        if control.epoch(ROLE) <= epoch:
            return None
        decision = None if candidate is None else cancelled_by(control, candidate)
    except TidegateError:
        return None
    if decision is None:
        return replaced(app, control)
    return UpgradeError(
        "upgrade-cancelled",
        f"the upgrade of app {app!r} to generation {candidate} was cancelled by {by_text(decision.by)}; "
        f"generation {control.active()} is active, and nothing was published",
        "start the version of that generation: tidegate run. To upgrade after all: tidegate upgrade",
    )


def replaced(app: str, control: Control) -> UpgradeError:
    """Return the error for an upgrade whose app another process has taken over."""
    return UpgradeError(
        "generation-replaced",
        f"another process took app {app!r} over during this upgrade; generation {control.active()} is active",
        f"see tidegate generations {app}; if that is not the one you want, start again: the app is then "
        "compared with the generation that runs",
    )
