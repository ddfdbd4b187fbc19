"""Remove what an upgrade leaves behind: the throw-away app after a switch, or a candidate that is given up.

Topics of a candidate are deleted only if no other generation names them. The numbers of generations are never
used twice, so a slot that still runs somewhere cannot write to topics of a later candidate.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec

from tidegate.clock import Clock
from tidegate.errors import UpgradeError
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.faultpoints import reach
from tidegate.log.protocol import Log, Writer
from tidegate.runtime.driver.takeover import take_over
from tidegate.runtime.topics.control import Control, code_key, manifest_key, read_control, write_control
from tidegate.runtime.topics.decisions import DecidedBy, Decision, check_texts, decision_entry
from tidegate.runtime.topics.manifests import manifest_of
from tidegate.runtime.topics.upgrades import CONSENT, UpgradeEntry, append_upgrade, upgrade_of
from tidegate.topology.belongings import of_manifest
from tidegate.topology.manifest import Manifest
from tidegate.upgrade.leftovers import delete_topic, remove_recalculation

OPEN = ("recalculating", "waiting")
"""States of an upgrade that can be given up."""


def abandon(
    log: Log, writer: Writer, app: str, control: Control, state_dir: Path | None, clock: Clock
) -> UpgradeEntry | None:
    """Give up the candidate of an upgrade that was not decided, if there is one. The caller holds the app."""
    entry = upgrade_of(control)
    if entry is None or entry.state not in OPEN:
        return None
    reach("abandon.1")
    remove_recalculation(log, names.upgrade(app), state_dir, clock)
    candidate = manifest_of(control, entry.generation)
    if candidate is not None:
        others = [manifest_of(control, one) for one in control.generations() if one != entry.generation]
        needed = {topic for one in others if one is not None for topic in topics_of(one)}
        for topic in sorted(topics_of(candidate) - needed):
            reach("abandon.2")
            delete_topic(log, topic)
    reach("abandon.3")
    ended = msgspec.structs.replace(entry, state="cancelled", questions=[])
    append_upgrade(writer, app, ended, clock.now())
    gone = [manifest_key(entry.generation), code_key(entry.generation), CONSENT]
    write_control(writer, app, dict.fromkeys(gone), clock.now())
    writer.commit()
    return ended


def cancel(
    log: Log, app: str, state_dir: Path | None, clock: Clock, by: DecidedBy | None = None
) -> UpgradeEntry:
    """Give up an upgrade, also one that still runs: it is fenced, and its process ends with `by`. Raises
    UpgradeError `no-upgrade` if there is none, and `upgrade-decided` if it is too late."""
    control = read_control(log, app) if find_topic(log, names.control(app)) is not None else Control()
    entry = upgrade_of(control)
    if entry is None or entry.state in ("done", "cancelled"):
        raise _no_upgrade(app)
    if entry.state == "publishing":
        raise _decided(app, entry)
    decision = Decision(
        generation=entry.generation, kind="cancel", at=clock.now(), by=check_texts(by or DecidedBy())
    )
    try:
        claim = take_over(log, app, control.active(), clock, lambda now: decision_entry(now, decision))
    except UpgradeError as error:
        if error.code == "generation-replaced":
            raise _decided(app, entry) from error
        raise
    with closing(claim):
        ended = abandon(log, claim.writer, app, read_control(log, app), state_dir, clock)
    if ended is None:
        raise _no_upgrade(app)  # it was cancelled at the same time
    return ended


def _no_upgrade(app: str) -> UpgradeError:
    return UpgradeError(
        "no-upgrade", f"no upgrade of app {app!r} is under way", f"see: tidegate generations {app}"
    )


def _decided(app: str, entry: UpgradeEntry) -> UpgradeError:
    return UpgradeError(
        "upgrade-decided",
        f"the upgrade of app {app!r} to generation {entry.generation} was decided: it publishes its rows, or "
        "has published them",
        "finish it: tidegate upgrade; then go back with: tidegate rollback",
    )


def topics_of(manifest: Manifest) -> set[str]:
    """Return the changelogs and internal topics of a generation, and those that its models were recalculated
    into. Topics that the user named are not among them."""
    recalculated = {names.changelog(manifest.app, model, manifest.generation) for model in manifest.models}
    belongings = of_manifest(manifest)
    events = {model.events for model in manifest.models.values()}
    return (set(belongings.state) | recalculated) - belongings.named - events


def remove_staging(log: Log, entry: UpgradeEntry, app: str, state_dir: Path | None, clock: Clock) -> None:
    """Remove the throw-away app of an upgrade that has ended, and the topics that models were recalculated
    into."""
    remove_recalculation(log, names.upgrade(app), state_dir, clock)
    staged = {one.staged for one in entry.publishes if one.kind == "model" and one.staged is not None}
    for topic in sorted(staged.intersection(log.names())) if staged else ():
        delete_topic(log, topic)


def remove_leftovers(log: Log, app: str, state_dir: Path | None, clock: Clock) -> None:
    """Remove what an upgrade has left that was killed after everything was published: topics, and the folder
    of its state on this host. Called by each start, upgrade and `tidegate finish`."""
    has_control = find_topic(log, names.control(app)) is not None
    entry = upgrade_of(read_control(log, app)) if has_control else None
    if entry is not None and entry.state == "done":
        remove_staging(log, entry, app, state_dir, clock)
