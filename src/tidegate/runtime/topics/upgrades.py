"""The upgrade of an app in its control topic: which generation is being prepared, and how far it is.

    upgrade                the newest upgrade: also after it has ended, since numbers of generations are
                           never used twice
    consent                what a person has allowed for it
    finished/<generation>  what a former generation left was deleted

    recalculating ──> publishing ──> done
        │    ^
        v    │ consent
       waiting ────> cancelled

Until `publishing` the old generation is in force, and nothing was published. From then on the new one is, and
every start first publishes the rest.
"""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec

from tidegate.errors import UpgradeError
from tidegate.log.protocol import Writer
from tidegate.runtime.replay import Cut
from tidegate.runtime.topics.control import Control, bad_control, write_control

UPGRADE, CONSENT = "upgrade", "consent"
S = TypeVar("S", bound=msgspec.Struct)
UpgradeState = Literal["recalculating", "waiting", "publishing", "done", "cancelled"]


class Differences(msgspec.Struct, frozen=True):
    """How many rows of a table topic or model differ, and how."""

    put: int = 0
    """New rows."""
    changed: int = 0
    removed: int = 0
    equal: int = 0
    foreign: int = 0
    """Rows that another writer wrote last: they are left alone."""

    @property
    def differing(self) -> int:
        return self.put + self.changed + self.removed

    @property
    def before(self) -> int:
        """How many rows there were."""
        return self.changed + self.removed + self.equal


class Published(msgspec.Struct, frozen=True):
    """One table topic or model that an upgrade corrects."""

    name: str
    """The table topic or the model."""
    kind: Literal["table", "model"]
    live: str
    """The table topic, or the changelog of the model."""
    staged: str | None
    """The topic with the recalculated rows; None if all rows are removed."""
    events: str = ""
    """The topic of the model's events."""
    component: str = ""
    subtopology: int = 0
    """The subtopology that keeps the model."""


class Question(msgspec.Struct, frozen=True):
    """Something that must be decided before an upgrade, or before it goes on."""

    code: str
    text: str
    consent: str
    """How to consent, or what to do instead."""
    sink: str = ""
    """The table topic whose rows would be removed; empty for anything else."""


class UpgradeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The newest upgrade of an app."""

    generation: int
    """The generation that it prepares."""
    before: int
    """The generation that ran."""
    state: UpgradeState
    cut: Cut | None = None
    """Where the old generation stopped."""
    publishes: list[Published] = []
    differences: dict[str, Differences] = {}
    """By table topic and model, once they were compared."""
    failures: int = 0
    """Records that failed in the recalculation under the policies `skip` and `dead-letter`."""
    questions: list[Question] = []
    """What it waits for."""
    began: int = 0
    """When it began, in ms."""


class ConsentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What a person has allowed for the upgrade to a generation."""

    generation: int
    yes: bool = False
    removals: list[str] = []
    """Table topics whose rows may be removed."""
    by: str = ""


class FinishedEntry(msgspec.Struct, frozen=True):
    """Nothing is left of a former generation but its manifest."""

    at: int


def finished_key(generation: int) -> str:
    return f"finished/{generation}"


_finished = msgspec.json.Decoder(FinishedEntry)
_upgrade, _consent = msgspec.json.Decoder(UpgradeEntry), msgspec.json.Decoder(ConsentEntry)


def upgrade_of(control: Control) -> UpgradeEntry | None:
    """Return the newest upgrade; None if there was none."""
    return _decoded(control, UPGRADE, _upgrade)


def consent_of(control: Control) -> ConsentEntry | None:
    """Return what a person has allowed for the newest upgrade."""
    found, entry = _decoded(control, CONSENT, _consent), upgrade_of(control)
    return found if found is not None and entry is not None and found.generation == entry.generation else None


def finished_of(control: Control, generation: int) -> FinishedEntry | None:
    """Return whether what a former generation left was deleted."""
    return _decoded(control, finished_key(generation), _finished)


def shown_upgrade(entry: UpgradeEntry) -> dict[str, object]:
    """Return what people and clients are shown of an upgrade: without the positions where it is cut."""
    return {
        "generation": entry.generation,
        "before": entry.before,
        "state": entry.state,
        "began": entry.began,
        "differences": entry.differences,
        "failures": entry.failures,
        "questions": entry.questions,
    }


def upgrade_lines(entry: UpgradeEntry) -> list[str]:
    """Describe an upgrade in one line, or in one for each question that it waits for."""
    start = f"upgrade to generation {entry.generation}"
    if entry.state != "waiting":
        return [f"{start}: {entry.state}"]
    return [f"{start}: waiting for consent: {one.text}  Do: {one.consent}" for one in entry.questions]


def _decoded(control: Control, key: str, decoder: msgspec.json.Decoder[S]) -> S | None:
    raw = control.entries.get(key)
    try:
        return None if raw is None else decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise bad_control(f"an invalid {key}: {error}") from error


def append_upgrade(writer: Writer, app: str, entry: UpgradeEntry, now: int) -> None:
    """Append the entry to the writer's transaction."""
    write_control(writer, app, {UPGRADE: entry}, now)


def next_generation(control: Control) -> int:
    """Return a number that no generation has or had."""
    entry = upgrade_of(control)
    return max([*control.generations(), control.active(), entry.generation if entry else 0]) + 1


def check_published(app: str, control: Control) -> None:
    """Raise UpgradeError `upgrade-unfinished` if an upgrade was decided and not everything is published. A
    start publishes the rest first: see `upgrade/publication`."""
    entry = upgrade_of(control)
    if entry is not None and entry.state == "publishing":
        raise UpgradeError(
            "upgrade-unfinished",
            f"the upgrade of app {app!r} to generation {entry.generation} was decided and has not published "
            "everything",
            "start the app with tidegate run, or finish the upgrade with: tidegate upgrade",
            retryable=True,
        )
