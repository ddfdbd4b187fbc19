"""The generations of an app: which one runs, what changed with each, and what is left of former ones."""

from __future__ import annotations

from typing import Literal

import msgspec

from tidegate.changes.changes import Changes
from tidegate.changes.compare import compare
from tidegate.changes.summary import clauses
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.protocol import Log
from tidegate.runtime.topics.control import Control, manifest_key
from tidegate.runtime.topics.manifests import active_manifest, code_of, manifest_of, visible_control
from tidegate.runtime.topics.upgrades import Differences, finished_of, upgrade_of
from tidegate.topology.manifest import Manifest
from tidegate.upgrade.component_plans import ACTIONS
from tidegate.upgrade.finish import left_topics
from tidegate.upgrade.plan import Action


class GenerationInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One generation of an app."""

    generation: int
    state: Literal["active", "former", "candidate"]
    upgrade: str = ""
    """The state of the newest upgrade, if it leads to this generation."""
    began: int | None = None
    """When its upgrade began, or its manifest was written, in ms."""
    commit: str = ""
    """The commit that its code is from, with `-dirty` if files differed from it; empty if it is unknown."""
    kinds: list[str] = []
    """What kinds of changes led from the generation before it to this one."""
    changes: list[str] = []
    """One text for each of them, with source lines, as in the plan."""
    components: dict[str, Action] = {}
    """What its upgrade does, or did, with each component."""
    differences: dict[str, Differences] = {}
    """What was published for it, by table topic and model; known for the newest upgrade."""
    left: list[str] = []
    """Topics that only former generations use. `tidegate finish` deletes them."""
    finished: bool = False
    """Whether `tidegate finish` has deleted what it left."""


def generations(log: Log, app: str) -> list[GenerationInfo]:
    """Return the generations of an app, oldest first; empty if it never ran. Writes nothing."""
    control = visible_control(log, app) if find_topic(log, names.control(app)) is not None else Control()
    active = active_manifest(control)
    if active is None:
        return []
    left = left_topics(log, control, active)
    found: list[GenerationInfo] = []
    before: Manifest | None = None
    for number in control.generations():
        manifest = manifest_of(control, number)
        if manifest is None:
            continue
        found.append(_info(control, manifest, active, before, left))
        before = manifest
    return found


def _info(
    control: Control, manifest: Manifest, active: Manifest, before: Manifest | None, left: list[str]
) -> GenerationInfo:
    number = manifest.generation
    entry = upgrade_of(control)
    newest = entry if entry is not None and entry.generation == number else None
    if number == active.generation:
        state: Literal["active", "former", "candidate"] = "active"
    else:
        state = "former" if number < active.generation else "candidate"
    changes = _changes(control, manifest, before)
    return GenerationInfo(
        generation=number,
        state=state,
        upgrade="" if newest is None else newest.state,
        began=control.times.get(manifest_key(number)) if newest is None else newest.began,
        commit=code_of(control, number).commit,
        kinds=[] if changes is None else [str(kind) for kind in changes.kinds],
        changes=[] if changes is None else clauses(changes),
        components={} if changes is None else {one.id: ACTIONS[one.verdict] for one in changes.components},
        differences={} if newest is None else newest.differences,
        left=[topic for topic in left if _newest_of(control, topic) == number],
        finished=finished_of(control, number) is not None,
    )


def _changes(control: Control, manifest: Manifest, before: Manifest | None) -> Changes | None:
    """Return what led to a generation; None for the first one."""
    if before is None:
        return None
    return compare(
        before, manifest, code_of(control, before.generation), code_of(control, manifest.generation)
    )


def _newest_of(control: Control, topic: str) -> int:
    """Return the newest generation that names a topic."""
    for number in reversed(control.generations()):
        raw = control.entries.get(manifest_key(number), b"")
        if msgspec.json.encode(topic) in raw:
            return number
    return 0
