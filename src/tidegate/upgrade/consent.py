"""What a person allows an upgrade to do, and which questions that answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.config.upgrade import UpgradeSettings
from tidegate.errors import UpgradeError
from tidegate.runtime.topics.decisions import DecidedBy, Decision
from tidegate.runtime.topics.upgrades import ConsentEntry, Differences, Question

NEVER = ("sink-deletes",)
"""Questions that no consent answers: something must be changed first."""
MAX_REMOVED = UpgradeSettings().max_removed
"""The share of a table topic's rows that an upgrade removes without consent."""

SETTINGS, CODE = DecidedBy(via="settings"), DecidedBy(via="code")


@dataclass(frozen=True, slots=True)
class Consent:
    """What is allowed."""

    yes: bool = False
    """Everything that does not remove rows."""
    removals: frozenset[str] = frozenset()
    """Table topics whose rows may be removed."""
    former: bool = False
    """Whether the code may be that of a former generation."""
    max_removed: float = MAX_REMOVED
    by: DecidedBy = CODE
    """Who allows it."""

    @classmethod
    def of(
        cls,
        settings: UpgradeSettings,
        *,
        yes: bool = False,
        removals: Iterable[str] = (),
        former: bool = False,
        by: DecidedBy = SETTINGS,
    ) -> Consent:
        """Return what the settings allow, and what a person allows besides."""
        return cls(yes, frozenset([*settings.allow_removals, *removals]), former, settings.max_removed, by)

    def allows(self, question: Question) -> bool:
        """Return whether this answers the question."""
        if question.code in NEVER:
            return False
        if question.code == "former-generation":
            return self.former
        if question.sink:
            return question.sink in self.removals or self.max_removed >= 1
        return self.yes

    def open(self, questions: Iterable[Question]) -> list[Question]:
        """Return the questions that are left."""
        return [question for question in questions if not self.allows(question)]

    def decision(self, generation: int, questions: Iterable[Question], at: int) -> Decision:
        """Return the record of this consent to the upgrade to a generation, with those of the questions that
        it answers."""
        answered = [question for question in questions if self.allows(question)]
        return Decision(
            generation=generation,
            kind="consent",
            at=at,
            by=self.by,
            yes=self.yes,
            removals=sorted(self.removals),
            questions=answered,
        )

    def with_entry(self, entry: ConsentEntry | None) -> Consent:
        """Return this with what was allowed through the control topic."""
        if entry is None:
            return self
        return Consent(
            self.yes or entry.yes, self.removals | set(entry.removals), self.former, self.max_removed, self.by
        )


def removals(name: str, found: Differences, max_removed: float) -> Iterable[Question]:
    """Return the question for a table topic that would lose too many of its rows."""
    if found.removed > max_removed * found.before:
        yield Question(
            "many-removed",
            f"{found.removed:,} of {found.before:,} rows of {name} would be removed",
            f"tidegate upgrade --allow-removals {name}",
            name,
        )


def failures(new: int, old: int) -> Iterable[Question]:
    """Return the question for code that fails more often than that of the old generation."""
    if new > old:
        yield Question(
            "more-failures",
            f"{new:,} records fail in the new version, {old:,} in the old one: rows that they lead to would "
            "be missing",
            "mend the new version; or accept it: tidegate upgrade --yes",
        )


def not_allowed(app: str, questions: list[Question]) -> UpgradeError:
    """Return the error for an upgrade that must not begin or go on yet."""
    listed = "; ".join(question.text for question in questions)
    hints = "; ".join(dict.fromkeys(question.consent for question in questions))
    return UpgradeError("upgrade-waits", f"the upgrade of app {app!r} needs a decision: {listed}", hints)
