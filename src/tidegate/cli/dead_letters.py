"""`tidegate dead-letters` and `tidegate redrive`: what failed in an app, and sending it back. Both need no
Spark and load no code of the app."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

import typer

from tidegate.cli.apps import AppId, unknown_app
from tidegate.cli.options import AsJson, LogUrl, opened, user_name
from tidegate.cli.output import print_json, print_line, print_table
from tidegate.clock import SystemClock
from tidegate.errors import ConfigError
from tidegate.runtime.dead_letters.groups import MOST_OFFSETS, OFFSETS_SHOWN, grouped_dead_letters
from tidegate.runtime.dead_letters.redrive import redrive as send_back
from tidegate.runtime.dead_letters.sent import Sent
from tidegate.runtime.topics.decisions import DecidedBy, check_texts
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.text.render import printable

HEADING = ("count", "error", "line", "newest offsets", "sent back", "message")
Named = Annotated[
    int,
    typer.Option("--offsets", min=1, max=MOST_OFFSETS, help="How many offsets of each group are named."),
]
Offsets = Annotated[
    list[int], typer.Argument(metavar="OFFSET...", min=0, help="Offsets in the dead-letter topic.")
]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept with the record.")]
Actor = Annotated[str | None, typer.Option("--actor", help="Who; default: you.", show_default=False)]
Again = Annotated[bool, typer.Option("--again", help="Send those that were sent before once more, too.")]


def dead_letters(
    app: AppId, offsets: Named = OFFSETS_SHOWN, log: LogUrl = None, json: AsJson = False
) -> None:
    """List the newest dead letters of an app, grouped by error and line, and those of them that were sent
    back."""
    with opened(log) as (found, _):
        if find_manifest(found, app) is None:
            raise unknown_app(app)
        report = grouped_dead_letters(found, app, offsets)
    if json:
        print_json(report)
        return
    rows = (
        (
            f"{one.count:,}",
            printable(one.code),
            printable(one.place),
            ",".join(map(str, one.offsets)),
            ",".join(str(sent.offset) for sent in one.sent),
            printable(one.message),
        )
        for one in report.groups
    )
    print_table(rows, HEADING)
    for line in _sent_lines(sent for one in report.groups for sent in one.sent):
        print_line(printable(line))


def redrive(
    app: AppId,
    offsets: Offsets,
    reason: Reason = "",
    actor: Actor = None,
    again: Again = False,
    log: LogUrl = None,
    json: AsJson = False,
) -> None:
    """Send dead letters of an app back to the topics that they came from. Those that were sent before are
    refused, unless --again is given.

    Exit code 1: at least one was refused.
    """
    if len(offsets) > MOST_OFFSETS:
        many = f"{len(offsets):,} offsets, and at most {MOST_OFFSETS:,} at once"
        raise ConfigError("bad-usage", many, "send them in parts")
    by = check_texts(DecidedBy(actor or user_name(), reason, "cli"))
    with opened(log) as (found, _):
        manifest = find_manifest(found, app)
        if manifest is None:
            raise unknown_app(app)
        now = SystemClock().now()
        done, refused = send_back(found, manifest, offsets, by.actor, by.reason, now=now, again=again)
    if json:
        print_json({"app": app, "redriven": done, "refused": refused})
    else:
        for one in done:
            print_line(f"{one.offset} -> {one.topic}/{one.partition}/{one.to_offset}")
        for not_sent in refused:
            print_line(printable(f"{not_sent.offset}: [{not_sent.code}] {not_sent.message}"))
    if refused:
        raise typer.Exit(1)


def _sent_lines(sent: Iterable[Sent]) -> Iterable[str]:
    for one in sent:
        at = datetime.fromtimestamp(one.at / 1000, UTC).astimezone()
        where = f"{one.topic}/{one.partition}" + ("" if one.to_offset is None else f"/{one.to_offset}")
        times = f", {one.times} times by now" if one.times > 1 else ""
        why = f": {one.reason}" if one.reason else ""
        yield f"{at:%Y-%m-%d %H:%M:%S}  {one.offset} -> {where}, by {one.by or 'someone'}{times}{why}"
