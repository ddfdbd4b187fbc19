"""`tidegate generations` and `tidegate finish`: what upgrades of an app left, and its removal. Both need no
Spark and load no code of the app."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from tidegate.cli.apps import AppId, unknown_app
from tidegate.cli.options import AsJson, LogUrl, opened
from tidegate.cli.output import print_json, print_line, print_table
from tidegate.clock import SystemClock
from tidegate.runtime.topics.decisions import decisions_of
from tidegate.runtime.topics.manifests import visible_control
from tidegate.runtime.topics.upgrades import Differences
from tidegate.text.render import printable
from tidegate.upgrade.decision_text import decision_text
from tidegate.upgrade.finish import finish as finish_upgrades
from tidegate.upgrade.leftovers import state_folder
from tidegate.upgrade.listing import GenerationInfo
from tidegate.upgrade.listing import generations as list_generations

SHORT_COMMIT = 10
HEADING = ("generation", "state", "began", "commit", "changes", "published", "left")


def generations(app: AppId, log: LogUrl = None, json: AsJson = False) -> None:
    """List the generations of an app: which one is active, what changed with each, and what former ones left.
    Below them: who consented to upgrades, or cancelled them."""
    with opened(log) as (found, _):
        listed = list_generations(found, app)
        decisions = decisions_of(visible_control(found, app))
    if not listed:
        raise unknown_app(app)
    if json:
        print_json({"app": app, "generations": listed, "decisions": decisions})
        return
    print_table(map(_cells, listed), HEADING)
    for decision in decisions:
        print_line(printable(f"{_time(decision.at)}  {decision_text(decision)}"))


def finish(app: AppId, log: LogUrl = None, json: AsJson = False) -> None:
    """Delete what former generations of an app left: topics that only they used, and their positions. The app
    may run meanwhile.

    It is refused while an upgrade is under way, and until the app has run once in its new generation.
    """
    with opened(log) as (found, config):
        done = finish_upgrades(found, app, SystemClock(), state_folder(config.folder, config.state_dir))
    if json:
        print_json(done)
        return
    for topic in done.topics:
        print_line(f"deleted topic {topic}")
    if done.topics or done.positions:
        print_line(
            f"{app}: deleted {_some(len(done.topics), 'topic')} and {_some(done.positions, 'position')}"
        )
    else:
        print_line(f"{app}: nothing to delete")


def counted(differences: Mapping[str, Differences]) -> Iterable[str]:
    """Yield a line for each table topic and model."""
    for name, one in differences.items():
        foreign = f", {one.foreign:,} of other writers" if one.foreign else ""
        yield (
            f"{name}: {one.put:,} put, {one.changed:,} changed, {one.removed:,} removed, {one.equal:,} equal"
            f"{foreign}"
        )


def _cells(one: GenerationInfo) -> tuple[str, ...]:
    state = f"{one.state}, {one.upgrade}" if one.state == "candidate" and one.upgrade else one.state
    began = "" if one.began is None else _time(one.began)
    published = "; ".join(counted(one.differences)) if one.upgrade in ("publishing", "done") else ""
    left = "finished" if one.finished else _some(len(one.left), "topic") if one.left else ""
    commit = printable(_short(one.commit))
    return str(one.generation), state, began, commit, ", ".join(one.kinds), published, left


def _short(commit: str) -> str:
    number, dash, changed = commit.partition("-")
    return f"{number[:SHORT_COMMIT]}{dash}{changed}"


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
