"""Decisions on upgrades as text for people."""

from __future__ import annotations

from tidegate.runtime.topics.decisions import DecidedBy, Decision


def decision_text(decision: Decision) -> str:
    """Describe a decision in one line."""
    if decision.kind == "cancel":
        return f"generation {decision.generation}: cancelled by {by_text(decision.by)}"
    return f"generation {decision.generation}: allowed by {by_text(decision.by)}; {_allowed(decision)}"


def by_text(by: DecidedBy) -> str:
    """Name who decided, how, and the reason if there is one."""
    reason = f": {by.reason}" if by.reason else ""
    return f"{by.actor or 'unknown'} ({by.via}){reason}"


def _allowed(decision: Decision) -> str:
    if decision.questions:
        return "; ".join(question.text for question in decision.questions)
    found = ["everything that removes no rows"] if decision.yes else []
    found += [f"removed rows of {topic}" for topic in decision.removals]
    return ", ".join(found) or "nothing"
