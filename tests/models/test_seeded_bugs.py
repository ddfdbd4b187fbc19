"""The checks of `histories.py` find the bugs that are easily made in stamps and answers."""

from __future__ import annotations

import importlib
from typing import Any

import msgspec
import pytest
from tests.models.app import EVENTS, Started, StepDone, workflows
from tests.models.histories import check_history
from tests.repetitions import repeated

from tidegate.models import stamps
from tidegate.models.fold import Fold
from tidegate.models.row import ModelRow, encode_stamps
from tidegate.models.stamps import ListStamps, ObjectStamps
from tidegate.models.step import Step
from tidegate.models.token import Token
from tidegate.testing import Driver

SEEDS = 40
answers = importlib.import_module("tidegate.models.answer")  # the package has a function of this name


@pytest.mark.soak
def test_every_version_leads_to_the_newest_by_one_frame() -> None:
    assert sum(check_history(seed) for seed in range(repeated(60, 4_000))) > 40_000


def off_by_one(patch: pytest.MonkeyPatch) -> None:
    since = stamps.since
    patch.setattr(answers, "since", lambda document, found, sequence: since(document, found, sequence + 1))


def deleted_keys_forgotten(patch: pytest.MonkeyPatch) -> None:
    keys_since = stamps._keys_since

    def forgetful(document: Any, found: ObjectStamps, sequence: int) -> Any:
        return keys_since(document, msgspec.structs.replace(found, deleted={}), sequence)

    patch.setattr(stamps, "_keys_since", forgetful)


def cut_of_a_list_forgotten(patch: pytest.MonkeyPatch) -> None:
    items_since = stamps._items_since

    def forgetful(document: Any, found: ListStamps, sequence: int) -> Any:
        return items_since(document, msgspec.structs.replace(found, cut=0), sequence)

    patch.setattr(stamps, "_items_since", forgetful)


def floor_ignored(patch: pytest.MonkeyPatch) -> None:
    known = answers._known
    patch.setattr(answers, "_known", lambda held, row: known(held, msgspec.structs.replace(row, floor=0)))


def life_ignored(patch: pytest.MonkeyPatch) -> None:
    known = answers._known

    def careless(held: Token, row: ModelRow) -> bool:
        return bool(known(Token(row.life, held.sequence, held.hash), row))

    patch.setattr(answers, "_known", careless)


def types_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stamps, "_EXACT", frozenset((str, int, bool, float, dict, list)))


def digest_of_other_bytes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(answers, "digest", lambda document: f"sha256:{hash(str(document)):x}")


def floor_too_low(patch: pytest.MonkeyPatch) -> None:
    newer = stamps._newer
    patch.setattr(stamps, "_newer", lambda found, floor: newer(found, floor + 1))


BUGS = (
    off_by_one,
    deleted_keys_forgotten,
    cut_of_a_list_forgotten,
    floor_ignored,
    life_ignored,
    types_ignored,
    digest_of_other_bytes,
    floor_too_low,
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_seeded_bug_is_found(bug: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        for seed in range(SEEDS):
            check_history(seed)


def test_a_failed_record_that_leaves_its_stamps_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = Fold.apply

    def careless(self: Fold, row: ModelRow, diff: Any) -> Step:
        try:
            return apply(self, row, diff)
        except ValueError:
            half = msgspec.structs.replace(
                row, sequence=row.sequence + 1, stamps=encode_stamps(row.sequence + 1)
            )
            return Step(half)

    check_failed_record()
    monkeypatch.setattr(Fold, "apply", careless)
    with pytest.raises(AssertionError):
        check_failed_record()


def check_failed_record() -> None:
    """A record that fails leaves the row, its stamps and its version as they were."""
    with Driver(workflows(on_error="skip")) as d:
        d.send(EVENTS, "w1", Started("Ship"))
        d.run()
        before = d.model("workflows").rows()
        d.send(EVENTS, "w1", StepDone("pack", -1.0))
        d.run()
        assert d.model("workflows").rows() == before
