"""Inputs drawn at random: operations on few keys, with event times that mostly rise."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from tests.simulator.program import WINDOW_MS, Action, Op

ACTIONS: tuple[Action, ...] = ("put", "put", "put", "delete", "delete", "fail")


class EventTimes:
    """Event time moves on in each partition; some records come late."""

    def __init__(self, partitions: int) -> None:
        self._latest = [0] * partitions

    def draw(self, partition: int, rng: Random) -> int:
        self._latest[partition] += rng.choice((0, 1, 3, 9))
        return max(0, self._latest[partition] - rng.choice((0, 0, 0, 7, 50)))


def draw_op(stores: Sequence[str], keys: Sequence[str], timestamp: int, rng: Random) -> Op:
    start = max(0, timestamp - rng.choice((0, 0, WINDOW_MS))) // WINDOW_MS * WINDOW_MS
    store = rng.choice(stores)
    return Op(store, rng.choice(keys), rng.choice(ACTIONS), start if store == "windows" else 0)
