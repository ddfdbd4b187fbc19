"""Inspect the state on this host from outside, and compare it with the log.

Reads what is committed to disk, while the task may be running. The task itself may be some seconds ahead of
that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidegate.errors import StateError
from tidegate.log.names import of_preview
from tidegate.log.protocol import Log
from tidegate.log.reads import read_between
from tidegate.state.changelog import to_rows
from tidegate.state.environment import Metadata, ReadOnlyEnvironment
from tidegate.state.formats import LAYOUTS
from tidegate.state.lmdb_store import LmdbStore
from tidegate.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Found:
    """One numbered folder of a task, as committed to disk."""

    folder: Path
    metadata: Metadata
    bytes: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A key whose value differs between a store and the fold of its changelog; None: no row."""

    key: bytes
    store: bytes | None
    changelog: bytes | None


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check: the number of rows, and the keys that differ."""

    task: str
    store: str
    rows: int
    offset: int
    end: int
    differences: list[Difference]


def find_folders(
    state_dir: Path, app: str | None = None, unreadable: list[StateError] | None = None
) -> list[Found]:
    """Return the newest folder of every task below the state folder, sorted by task. A folder that cannot be
    read raises an error, or is added to `unreadable` if that is passed."""
    found = []
    for home in homes_below(state_dir, app):
        try:
            found.append(find_newest(home))
        except StateError as error:
            if unreadable is None:
                raise
            task = f"{home.parent.name}/{home.name} of app {home.parent.parent.name}"
            unreadable.append(StateError(error.code, f"{task}: {error.message}", error.hint))
    return [one for one in found if one is not None]


def homes_below(state_dir: Path, app: str | None = None) -> list[Path]:
    """Return the homes of all tasks below the state folder, sorted; those of previews only if requested."""
    found = state_dir.glob(f"{app or '*'}/*/*/*/data.mdb")
    homes = {data.parent.parent for data in found if data.parent.name.isdigit()}
    return sorted(home for home in homes if app is not None or not of_preview(home.parent.parent.name))


def newest_folder(home: Path) -> Path:
    """Return the folder that a task would take. The home must have one."""
    numbered = (data.parent for data in home.glob("*/data.mdb") if data.parent.name.isdigit())
    return max(numbered, key=lambda path: int(path.name))


def find_newest(home: Path) -> Found | None:
    """Return the newest folder of a task; None if nothing was committed there yet."""
    newest = newest_folder(home)
    with opened(newest) as environment:
        metadata = environment.metadata()
    if metadata is None:
        return None
    return Found(newest, metadata, (newest / "data.mdb").stat().st_size)


@contextmanager
def opened(folder: Path) -> Iterator[ReadOnlyEnvironment]:
    """Open the committed contents of a folder, read-only."""
    environment = ReadOnlyEnvironment(folder)
    try:
        yield environment
    finally:
        environment.close()


def rows_of(environment: ReadOnlyEnvironment, metadata: Metadata, store: str) -> LmdbStore:
    """Return the rows of one store; raise StateError `no-such-store`."""
    facts = metadata.stores.get(store)
    if facts is None or not environment.has(store):
        known = ", ".join(sorted(metadata.stores)) or "none"
        raise StateError(
            "no-such-store", f"{metadata.task} has no store {store!r} on disk", f"use one of: {known}"
        )
    return LmdbStore(environment, store, LAYOUTS[facts.kind].suffix)


def stores_on_disk(found: Found) -> list[str]:
    """Return the stores that can be compared with their changelogs: not those in memory or users' own."""
    with opened(found.folder) as environment:
        return [
            name
            for name, facts in sorted(found.metadata.stores.items())
            if facts.changelog is not None and name in found.metadata.offsets and environment.has(name)
        ]


def check(log: Log, found: Found, store: str) -> Checked:
    """Compare a store with the fold of its changelog.

    The rows on disk are the fold at their own offset. Later records are read from the log and applied; then
    both sides are at the same end offset, whatever compaction removed in between.
    """
    facts = found.metadata.stores[store]
    if facts.changelog is None:
        raise StateError(
            "no-changelog", f"store {store!r} has no changelog to compare with", "check another store"
        )
    layout = LAYOUTS[facts.kind]
    with opened(found.folder) as environment:
        metadata = environment.metadata()
        if metadata is None or store not in metadata.offsets:
            raise StateError(
                "no-such-store", f"store {store!r} is not on disk yet", "try again in a few seconds"
            )
        rows = dict(rows_of(environment, metadata, store).scan(None, None))
        offset = metadata.offsets[store]
    partition = TopicPartition(facts.changelog, found.metadata.task.partition)
    start = log.describe(partition.topic).starts[partition.partition]
    end = int(log.ends([partition])[partition])
    folded: dict[bytes, bytes] = {}
    for batch in read_between(log, partition, start, end):
        offsets = batch.column(0).to_pylist()
        for at, (key, value) in zip(offsets, to_rows(batch, layout), strict=True):
            for side in (folded, rows) if at >= offset else (folded,):
                if value is None:
                    side.pop(key, None)
                else:
                    side[key] = value
    keys = sorted(rows.keys() | folded.keys())
    differences = [
        Difference(key, rows.get(key), folded.get(key)) for key in keys if rows.get(key) != folded.get(key)
    ]
    return Checked(str(found.metadata.task), store, len(rows), offset, end, differences)
