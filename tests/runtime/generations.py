"""Two versions of an app, and a switch from one to the other: for tests on both logs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tidegate import App, TableTopic, Topic
from tidegate.clock import Clock
from tidegate.log.positions import Position, TaskId, read_positions
from tidegate.log.protocol import Log
from tidegate.runtime.driver.prepare import prepare
from tidegate.runtime.driver.takeover import Claim, take_over
from tidegate.runtime.topics.manifests import append_active, append_manifest, find_manifest
from tidegate.topology.code import Code
from tidegate.topology.generations import continued
from tidegate.topology.identity import identified
from tidegate.topology.manifest import Manifest, make_manifest

A, B = Topic("a", int, partitions=2), Topic("b", int, partitions=2)
OUT, MORE = TableTopic("out", int, partitions=2), TableTopic("more", int, partitions=2)


def name_of(value: int) -> str:
    return f"{value % 3}"


def counts(app: App) -> None:
    app.stream(A).group_by("by-name", name_of).count("counts").to(OUT)


def sums(app: App) -> None:
    app.stream(B).sum("sums", int).to(MORE)


def version_1(id: str = "shop") -> App:
    app = App(id)
    counts(app)
    return app


def version_2(id: str = "shop") -> App:
    """A component before the one that there was."""
    app = App(id)
    sums(app)
    counts(app)
    return app


def switch(log: Log, app: App, clock: Clock) -> Manifest:
    """Make the app the next generation, as step 8 of an upgrade does."""
    known = find_manifest(log, app.id)
    assert known is not None
    with closing(take_over(log, app.id, known.generation, clock)) as claim:
        return switch_under(claim, log, app, known, clock)


def switch_under(claim: Claim, log: Log, app: App, known: Manifest, clock: Clock) -> Manifest:
    topology = identified(app.build(), known)
    code = Code()
    partitions = {node.topic.name: 2 for node in topology.nodes.values() if node.topic}
    made = make_manifest(topology, partitions, known.generation + 1, known.internal_partitions, code=code)
    manifest = continued(made, known)
    append_manifest(claim.writer, manifest, clock.now(), code.entry())
    append_active(claim.writer, manifest, clock.now())
    claim.writer.commit()
    return manifest


def worked(log: Log, app: App, clock: Clock, folder: Path) -> int:
    """Run all there is to do, and return how many records of sources were read."""
    run = prepare(app.build(), log, clock, partitions=2)
    slots = run.slots(folder, 1)
    idle, records = 0, 0
    while idle < 3:
        busy = [slot.step(0.05) for slot in slots]
        for slot in slots:
            slot.commit()
        idle = 0 if any(busy) else idle + 1
    for slot in slots:
        records += slot.records
        slot.close()
    return records


def folders(folder: Path) -> dict[str, int]:
    """The folders of tasks, with their inodes: a folder that was removed and made again has another."""
    return {path.relative_to(folder).as_posix(): path.stat().st_ino for path in folder.rglob("data.mdb")}


def positions(log: Log, app: str = "shop") -> Mapping[TaskId, Position]:
    return read_positions(log, app)
