"""Finish the upgrades of an app: delete what former generations left.

1 check that no upgrade is under way, and that the app has run since the newest one: a plan that assigns tasks
of a former generation needs their positions; 2 remove throw-away apps; 3 delete the topics that only former
generations name; 4 one transaction removes the positions of tasks that are not of the active generation, and
records which generations are finished.

A run of the app is not touched. Killed anywhere, the next call does the rest. Manifests stay: code of a
former generation is recognised by them. Topics that the user named stay, and those that another app uses.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tidegate.clock import Clock
from tidegate.errors import ConfigError, UpgradeError
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.faultpoints import reach
from tidegate.log.positions import TaskId, read_positions
from tidegate.log.protocol import Log
from tidegate.log.records import Row, to_batch
from tidegate.runtime.topics.control import ROLE, Control, read_control, write_control
from tidegate.runtime.topics.manifests import active_manifest, manifest_of, manifests
from tidegate.runtime.topics.upgrades import (
    FinishedEntry,
    check_published,
    finished_key,
    finished_of,
    upgrade_of,
)
from tidegate.topology.belongings import OF_EACH, Belongings, of_manifest
from tidegate.topology.manifest import Manifest
from tidegate.types import TopicPartition
from tidegate.upgrade.abandon import OPEN, remove_leftovers, topics_of
from tidegate.upgrade.leftovers import delete_topic, remove_killed_preview, remove_recalculation


@dataclass(frozen=True, slots=True)
class Finished:
    """What was deleted."""

    app: str
    generations: list[int]
    """The former generations of which nothing is left but the manifest."""
    topics: list[str]
    positions: int
    """Positions of tasks of former generations."""


def finish(log: Log, app: str, clock: Clock, state_dir: Path) -> Finished:
    """Delete what former generations of an app left. Raises ConfigError `never-started`, and UpgradeError:
    `upgrade-unfinished` and `upgrade-open` while an upgrade is under way, `not-run-since` if the app has not
    run since the newest one."""
    reach("finish.1")
    active = _checked(log, app)
    reach("finish.2")
    remove_recalculation(log, names.upgrade(app), state_dir, clock)
    remove_leftovers(log, app, state_dir, clock)
    remove_killed_preview(log, app, state_dir, clock)
    deleted = []
    for topic in left_topics(log, read_control(log, app), active):
        reach("finish.3")
        # An upgrade that began meanwhile may use the topic of a gate or model that was removed once.
        if topic in left_topics(log, read_control(log, app), active):
            delete_topic(log, topic)
            deleted.append(topic)
    reach("finish.4")
    with closing(log.writer(f"{names.driver_id(app, ROLE)}.finish")) as writer:
        control = read_control(log, app)
        former = former_tasks(log, active)
        now = clock.now()
        if former:
            rows = [Row(msgspec.json.encode(task), None, now) for task in former]
            writer.append(TopicPartition(names.positions(app), 0), to_batch(rows))
        done = [one for one in control.generations() if one < active.generation]
        new = [one for one in done if finished_of(control, one) is None]
        if new:
            write_control(writer, app, {finished_key(one): FinishedEntry(now) for one in new}, now)
        if former or new:
            writer.commit()
    return Finished(app, done, deleted, len(former))


def left_topics(log: Log, control: Control, active: Manifest) -> list[str]:
    """Return the topics that exist and that only former generations of the app name."""
    found = {one: manifest_of(control, one) for one in control.generations()}
    former = {
        topic for one in found.values() if one and one.generation < active.generation for topic in _all(one)
    }
    needed = {
        topic
        for one in [active, *(one for one in found.values() if one and one.generation > active.generation)]
        for topic in [*_all(one), *one.sources, *one.sinks]
    }
    left = former - needed
    if left:
        left -= {topic for one in manifests(log) if one.app != active.app for topic in _used(one)}
    existing = set(log.names()) if left else set()
    return sorted(left & existing)


def former_tasks(log: Log, active: Manifest) -> list[TaskId]:
    """Return the tasks with a position that are not of the active generation."""
    if find_topic(log, names.positions(active.app)) is None:
        return []
    return sorted(task for task in read_positions(log, active.app) if not _is_active(task, active))


def _checked(log: Log, app: str) -> Manifest:
    """Step 1."""
    control = read_control(log, app) if find_topic(log, names.control(app)) is not None else Control()
    active = active_manifest(control)
    if active is None:
        raise ConfigError("never-started", f"app {app!r} never ran on this log", "check its id and --log")
    check_published(app, control)
    entry = upgrade_of(control)
    if entry is not None and entry.state in OPEN:
        raise UpgradeError(
            "upgrade-open",
            f"the upgrade of app {app!r} to generation {entry.generation} is under way: {entry.state}",
            "let it end, or cancel it: tidegate upgrade --cancel",
        )
    planned = [task for slot in control.plan(ROLE).slots for task in slot.tasks]
    if any(not _is_active(task, active) for task in planned):
        raise UpgradeError(
            "not-run-since",
            f"app {app!r} has not run since generation {active.generation} became the active one",
            "start it once: tidegate run",
        )
    return active


def _is_active(task: TaskId, active: Manifest) -> bool:
    return task.component in active.components and active.generation_of(task.component) == task.generation


def _all(manifest: Manifest) -> set[str]:
    """Return the topics of a generation under names of the app: also those of its gates and models."""
    mine = of_manifest(manifest)
    return (topics_of(manifest) | _owned(mine)) - mine.named - {name(manifest.app) for name in OF_EACH}


def _used(manifest: Manifest) -> set[str]:
    return {*_owned(of_manifest(manifest)), *manifest.sources, *manifest.sinks}


def _owned(belongings: Belongings) -> frozenset[str]:
    return belongings.own | belongings.commands
