"""How much a slot reads, processes and commits at once.

Live, little: a commit must not wait for a long step. In a replay nobody waits for a commit, and much at once
is faster: of several changes of one key within a batch or a commit, only the last is written.
"""

from __future__ import annotations

from typing import NamedTuple

QUICK_SECONDS, SLOW_SECONDS = 1.0, 2.0


class Pace(NamedTuple):
    """The limits of one slot."""

    most_shares: int
    """How many times the usual number of records a task may process in one step."""
    buffered_records: int
    """Reading pauses above this number of buffered records, or above `buffered_bytes`."""
    buffered_bytes: int
    commit_bytes: int
    """A commit is due early if it would write more."""
    reads_ahead: bool
    """Whether a step reads until the buffer is full, before it processes anything."""


LIVE = Pace(1, 50_000, 1 << 62, 32 << 20, reads_ahead=False)
REPLAY = Pace(32, 400_000, 64 << 20, 64 << 20, reads_ahead=True)
REPLAY_OPEN_SECONDS = 50.0
"""How much longer than usual a log keeps a transaction of a replay open: it takes several seconds to append
64 MiB to a broker on a busy machine."""


def next_shares(shares: int, seconds: float, pace: Pace) -> int:
    """Return how many shares a task processes in the next step, if the longest full turn of a task took so
    long in this one: as many as take QUICK_SECONDS. Slow functions of the user must not keep a slot from
    reporting."""
    if seconds < QUICK_SECONDS:
        return min(pace.most_shares, max(2, int(QUICK_SECONDS / max(seconds, 0.001))) * shares)
    return max(1, shares // 2) if seconds > SLOW_SECONDS else shares
