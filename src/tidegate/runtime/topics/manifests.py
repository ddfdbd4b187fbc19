"""Find the apps on a log by their manifests."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec

from tidegate.errors import LogError, UpgradeError
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.protocol import Log, Writer
from tidegate.log.reads import fold, read_to_end
from tidegate.runtime.topics.control import (
    ACTIVE,
    Active,
    Control,
    bad_control,
    code_key,
    manifest_key,
    read_control,
    write_control,
)
from tidegate.topology.code import CodeEntry, packed, unpacked
from tidegate.topology.manifest import FORMAT, Manifest
from tidegate.topology.older import from_format_1
from tidegate.types import Offset, TopicPartition

KEY_PREFIXES = (
    *(b"active", b"attempt/", b"code/", b"consent", b"epoch/", b"manifest/", b"plan/", b"stage/", b"stop/"),
    *(b"decision/", b"drain/", b"finished/", b"upgrade"),
)
"""The prefixes of all keys of a control topic."""
FOREIGN_TOPIC_SECONDS = 15.0
_CONTROL = "-control"
logger = logging.getLogger("tidegate")


def manifests(log: Log) -> Iterator[Manifest]:
    """Yield the manifest of each app that ever ran here, ordered by id. A topic that merely has such a name
    is skipped: reading it ends at the first record that tidegate did not write, or after a short time if an
    open transaction hides its records."""
    return Manifests(log).all()


class Manifests:
    """Returns manifests repeatedly, and reads a control topic only if it was written to since."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[str, tuple[tuple[str, int], Manifest | None]] = {}

    def all(self) -> Iterator[Manifest]:
        """Yield the manifests, ordered by app id."""
        before, self._known = self._known, {}
        for topic in sorted(self._log.names()):
            shown = topic.endswith(_CONTROL) and not names.of_preview(topic)
            info = find_topic(self._log, topic) if shown else None
            if info is None or info.partitions != 1 or not info.compacts:
                continue
            written = info.uid, self._end(topic)
            known, manifest = before.get(topic, (None, None))
            if known != written:
                manifest = self._read(topic, info.starts[0])
            self._known[topic] = written, manifest
            if manifest is not None:
                yield manifest

    def _end(self, topic: str) -> int:
        """Return the end of a topic, -1 if it was deleted meanwhile."""
        partition = TopicPartition(topic, 0)
        try:
            return int(self._log.ends([partition])[partition])
        except LogError as error:
            if error.code != "no-such-topic":
                raise
            return -1

    def _read(self, topic: str, start: int) -> Manifest | None:
        try:
            manifest = _read_foreign(self._log, TopicPartition(topic, 0), start)
        except LogError as error:
            if error.code not in ("bad-control", "end-not-reached", "no-such-topic"):
                raise
            if error.code != "no-such-topic":
                logger.warning("topic %s is not the control topic of an app: %s", topic, error)
            return None
        except UpgradeError as error:
            logger.warning("the app of topic %s is skipped: %s", topic, error)
            return None
        return manifest if manifest is not None and names.control(manifest.app) == topic else None


def _read_foreign(log: Log, partition: TopicPartition, start: int) -> Manifest | None:
    """Return the manifest in a topic that may belong to another program and be large. The patience is longer
    than a broker keeps a transaction of tidegate open."""
    control = Control()
    for fetched in read_to_end(log, {partition: Offset(start)}, patience=FOREIGN_TOPIC_SECONDS):
        for key in fetched.batch.column("key").to_pylist():
            if key is None or not key.startswith(KEY_PREFIXES):
                raise bad_control(f"a record with the key {key!r:.50}")
        control.take_batch(fetched.batch)
    return active_manifest(control)


def find_manifest(log: Log, app: str, generation: int | None = None) -> Manifest | None:
    """Return the manifest of a generation, by default of the active one; None if the app never ran here, or
    has no such generation."""
    if find_topic(log, names.control(app)) is None:
        return None
    control = read_control(log, app)
    return active_manifest(control) if generation is None else manifest_of(control, generation)


def visible_manifest(log: Log, app: str) -> Manifest | None:
    """Return the active manifest that is visible now: see `visible_control`."""
    return active_manifest(visible_control(log, app))


def visible_control(log: Log, app: str) -> Control:
    """Return the entries that are visible now, without waiting for open transactions: one may belong to a
    driver that died during a takeover, and only the next takeover ends it. There are none if the app never
    ran here."""
    if find_topic(log, names.control(app)) is None:
        return Control()
    rows = fold(log, TopicPartition(names.control(app), 0))
    found = Control({key.decode(errors="replace"): value for key, (value, _) in rows.items()})
    found.times = {key.decode(errors="replace"): at for key, (_, at) in rows.items()}
    return found


def active_manifest(control: Control) -> Manifest | None:
    """Return the manifest of the active generation; None before the first."""
    active = control.active()
    found = manifest_of(control, active)
    if active and found is None:
        raise bad_control(f"no manifest of generation {active}, which is active")
    return found


def manifest_of(control: Control, generation: int) -> Manifest | None:
    """Return the manifest of a generation. Raises UpgradeError `newer-manifest` for one that a later version
    of tidegate wrote."""
    raw = control.entries.get(manifest_key(generation))
    try:
        if raw is None:
            return None
        written = _format.decode(raw).format
        if written == 1:
            return from_format_1(raw)
        if written == FORMAT:
            return _manifest.decode(raw)
    except (msgspec.DecodeError, LookupError, AttributeError, TypeError) as error:
        raise bad_control(f"an invalid manifest: {error}") from error
    raise UpgradeError(
        "newer-manifest",
        f"the manifest of generation {generation} has format {written}; this version of tidegate reads "
        f"{FORMAT}",
        "use the version of tidegate that wrote it, or a newer one",
    )


def former_manifests(log: Log, known: Manifest) -> list[Manifest]:
    """Return the manifests of the generations before the active one, the newest first."""
    if known.generation == 1:
        return []
    control = visible_control(log, known.app)
    before = (manifest_of(control, one) for one in reversed(control.generations()) if one < known.generation)
    return [manifest for manifest in before if manifest is not None]


def code_of(control: Control, generation: int) -> CodeEntry:
    """Return the code of a generation; empty if it was not written."""
    raw = control.entries.get(code_key(generation))
    try:
        return CodeEntry() if raw is None else unpacked(raw)
    except ValueError as error:
        raise bad_control(f"an invalid record of code: {error}") from error


def recorded_code(log: Log, manifest: Manifest) -> CodeEntry:
    """Return the code that a generation was started with, as far as it is visible now."""
    return code_of(visible_control(log, manifest.app), manifest.generation)


class _Format(msgspec.Struct):
    format: int = 1


_format = msgspec.json.Decoder(_Format)
_manifest = msgspec.json.Decoder(Manifest)


def append_manifest(writer: Writer, manifest: Manifest, now: int, code: CodeEntry | None = None) -> None:
    """Append the manifest and the code of its generation to the writer's transaction. The code stays as it is
    without one."""
    entries: dict[str, msgspec.Struct | bytes | None] = {manifest_key(manifest.generation): manifest}
    if code is not None:
        entries[code_key(manifest.generation)] = packed(code)
    write_control(writer, manifest.app, entries, now)


def append_active(writer: Writer, manifest: Manifest, now: int) -> None:
    """Append to the writer's transaction that the generation runs from now on."""
    write_control(writer, manifest.app, {ACTIVE: Active(manifest.generation)}, now)
