"""An invariant of QUALITY that does not hold, with everything that is needed to see it again."""

from __future__ import annotations

from collections.abc import Sequence

SHOWN = 25


class Violation(Exception):  # noqa: N818 - a finding, not a failure of the simulator
    """`invariant` is its number (I1 to I16); `seed` and `actions` are filled in by the run."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(invariant, what)
        self.invariant = invariant
        self.what = what
        self.seed: int | None = None
        self.steps = 0
        self.actions: Sequence[str] = ()

    def seen(self, seed: int, steps: int, actions: Sequence[str]) -> Violation:
        """The same, with what is needed to see it again."""
        self.seed, self.steps, self.actions = seed, steps, actions
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.invariant, self.what, self.seed, self.steps, tuple(self.actions))

    def __str__(self) -> str:
        text = f"{self.invariant}: {self.what}"
        if self.actions:
            last = "\n  ".join(self.actions[-SHOWN:])
            text += f"\nthe last of {len(self.actions)} actions were\n  {last}"
        if self.seed is not None:
            text += f"\nrun it again: python -m tests.simulator {self.seed} --steps {self.steps}"
        return text


def _again(invariant: str, what: str, seed: int | None, steps: int, actions: tuple[str, ...]) -> Violation:
    found = Violation(invariant, what)
    found.seed, found.steps, found.actions = seed, steps, actions
    return found


def demand(holds: bool, invariant: str, what: str) -> None:
    """Raise a Violation unless it holds."""
    if not holds:
        raise Violation(invariant, what)
