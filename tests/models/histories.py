"""Random histories of a document, and what must hold for every version of them."""

from __future__ import annotations

import hashlib
import json
from random import Random
from typing import Any

import msgspec

from tidegate.models.answer import answer
from tidegate.models.document import Documents
from tidegate.models.fold import Fold
from tidegate.models.patch import apply
from tidegate.models.row import NEVER, ModelRow

ID = "w"
REMOVED: Any = object()
_KEYS = "abcd="
_LEAVES = (None, True, False, 0, 1, 1.0, 0.5, -3, "a", "ä")


def replaced(_: Any, diff: Any) -> Any:
    """A reducer whose diffs are the next states."""
    return diff["state"]


def fold() -> Fold:
    return Fold(Documents(Any, 1 << 20), dict, replaced, None, dict)


def versions(random: Random, count: int) -> list[Any]:
    """Documents that have most in common with the one before; some are REMOVED."""
    found: list[Any] = [_document(random, 3)]
    for _ in range(count - 1):
        last = found[-1]
        if last is not REMOVED and random.random() < 0.05:
            found.append(REMOVED)
        else:
            found.append(_document(random, 3) if last is REMOVED else _edited(random, last, 3))
    return [0 if one is None else one for one in found]  # None would remove the id


def _document(random: Random, depth: int) -> Any:
    match random.randrange(4 if depth else 2):
        case 2:
            return {key: _document(random, depth - 1) for key in random.sample(_KEYS, random.randrange(5))}
        case 3:
            return [_document(random, depth - 1) for _ in range(random.randrange(5))]
    return random.choice(_LEAVES)


def _edited(random: Random, value: Any, depth: int) -> Any:
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice([*value, *_KEYS])
        if key in value and random.random() < 0.25:
            return {one: kept for one, kept in value.items() if one != key}
        new = _edited(random, value[key], depth - 1) if key in value else _document(random, depth - 1)
        return {**value, key: new}
    if isinstance(value, list) and value and random.random() < 0.9:
        match random.randrange(3):
            case 0:
                return value[: random.randrange(len(value) + 1)]
            case 1:
                return [*value, _document(random, max(depth - 1, 0))]
        index = random.randrange(len(value))
        return [*value[:index], _edited(random, value[index], depth - 1), *value[index + 1 :]]
    return _document(random, max(depth, 0))


def check_history(seed: int, count: int = 40) -> int:
    """Check each version of a history against each token that was given out before. Returns how many checks
    there were."""
    random, model = Random(seed), fold()
    row, held, checks = NEVER, {NEVER.token(ID): REMOVED}, 0
    for state in versions(random, count):
        row = _next(model, row, state)
        held[row.token(ID)] = state
        if random.random() < 0.1 and not row.gone:
            row = _with_fewer_stamps(row)
        for token, before in held.items():
            check_answer(row, token, before, state)
            checks += 1
    return checks


def check_answer(row: ModelRow, token: str, before: Any, state: Any) -> None:
    """Check the frame for a client that holds the state `before`, where `state` is the newest."""
    frame = answer(ID, row, token)
    assert frame is not None, "no token is beyond the newest row"
    assert frame.token == row.token(ID)
    if state is REMOVED:
        assert frame.kind == "gone"
        return
    life, sequence = (int(part) for part in token.split("-")[:2])
    known = life == row.life and sequence >= row.floor and before is not REMOVED
    assert frame.kind == ("patch" if known else "state")
    new = apply(before, frame.patch) if frame.kind == "patch" else frame.state  # type: ignore[arg-type]
    assert exact(new) == exact(state), (token, frame)
    assert frame.digest == plain_digest(new), token


def _next(model: Fold, row: ModelRow, state: Any) -> ModelRow:
    return model.remove(row).row if state is REMOVED else model.apply(row, {"state": state}).row


def _with_fewer_stamps(row: ModelRow) -> ModelRow:
    """As if there had been too many: the older half is dropped."""
    from tidegate.models import stamps
    from tidegate.models.row import encode_stamps

    all_stamps = row.decoded_stamps()
    found = sorted(stamps.sequences(all_stamps))
    risen = found[(len(found) - 1) // 2]
    kept = encode_stamps(stamps._newer(all_stamps, risen))
    return msgspec.structs.replace(row, stamps=kept, floor=max(row.floor, risen))


def exact(value: Any) -> bytes:
    """1, 1.0 and true differ."""
    return msgspec.json.encode(value, order="sorted")


def plain_digest(value: Any) -> str:
    """The digest of a value whose numbers and keys are simple, by the standard library."""
    whole = json.loads(json.dumps(value), parse_float=lambda text: _shortest(float(text)))
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _shortest(number: float) -> int | float:
    return int(number) if number.is_integer() else number
