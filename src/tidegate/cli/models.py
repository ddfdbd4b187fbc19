"""`tidegate models`: the states of models, their versions, and requests to them."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import msgspec
import typer

from tidegate.cli.durations import seconds
from tidegate.cli.model_log import existing, find_model, models_on
from tidegate.cli.options import MOST, AsJson, LogUrl, opened, user_name
from tidegate.cli.output import print_json, print_line, print_note, print_table
from tidegate.cli.typescript import declarations, type_name
from tidegate.connect.model_requests import request_of
from tidegate.models.formats import RequestKind
from tidegate.text.render import printable, when

app = typer.Typer(help="Models of the apps on the log.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="MODEL", help="The model, or APP/MODEL.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The id.")]
Expect = Annotated[
    str | None, typer.Option("--expect", metavar="TOKEN", help="Only if this is the newest version.")
]
RequestId = Annotated[
    str | None,
    typer.Option("--request", metavar="ID", help="Sent again, it has no second effect."),
]
Wait = Annotated[float, seconds("--wait", "How long to wait for the outcome.")]
WAIT_SECONDS = 30.0
Since = Annotated[
    str | None, typer.Option("--since", metavar="TOKEN", help="What changed since this version.")
]


@app.command("ls")
def ls(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Its ids; without one, all models.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=MOST, help="At most so many ids.")] = 100,
    log: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show the models on the log, or the ids of one."""
    with opened(log) as (opened_log, _):
        if model is None:
            found = [(one.app, one.name, one.entry) for one in models_on(opened_log)]
            if as_json:
                print_json(
                    [{"app": app, "model": name, **msgspec.to_builtins(entry)} for app, name, entry in found]
                )
            else:
                rows = [(app, name, f"{entry.partitions}", entry.events) for app, name, entry in found]
                print_table(rows, ("app", "model", "partitions", "events"))
            return
        ids = list(islice(find_model(opened_log, model).ids(), limit + 1))
    if as_json:
        print_json([{"id": id, "sequence": row.sequence, "token": row.token(id)} for id, row in ids[:limit]])
        return
    print_table(
        [(printable(id), f"{row.sequence}", f"{len(row.state):,}", row.token(id)) for id, row in ids[:limit]],
        ("id", "sequence", "bytes", "token"),
    )
    if len(ids) > limit:
        print_note("there are more ids: --limit")


@app.command()
def get(model: Name, id: Id, since: Since = None, log: LogUrl = None) -> None:
    """Print the state of an id as JSON; with --since, the frame that leads from that version to now."""
    with opened(log) as (opened_log, _):
        found = find_model(opened_log, model)
        if since is None:
            print_json(existing(found, id).document())
        else:
            print_json(next(iter(found.frames(id, since, None))))


@app.command()
def tail(
    model: Name,
    id: Id,
    since: Since = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, max=MOST, help="End after so many frames.")
    ] = None,
    timeout: Annotated[float | None, seconds("--timeout", "End after so long without a change.")] = None,
    log: LogUrl = None,
) -> None:
    """Print what changed as one frame, and then each change until Ctrl-C; one line of JSON each."""
    with opened(log) as (opened_log, _):
        frames = find_model(opened_log, model).frames(id, since, timeout)
        for frame in islice(frames, limit):
            print_json(frame)


@app.command()
def create(
    model: Name,
    id: Id,
    diff: Annotated[str | None, typer.Argument(metavar="DIFF", help="The first diff, as JSON.")] = None,
    request: RequestId = None,
    wait: Wait = WAIT_SECONDS,
    log: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Create an id, and wait until the model has decided on it."""
    _request("create", model, id, diff, None, request, wait, log, as_json=as_json)


@app.command()
def append(
    model: Name,
    id: Id,
    diff: Annotated[str, typer.Argument(metavar="DIFF", help="The diff, as JSON.")],
    expect: Expect = None,
    request: RequestId = None,
    wait: Wait = WAIT_SECONDS,
    log: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Apply a diff to an id, and wait until the model has decided on it."""
    _request("append", model, id, diff, expect, request, wait, log, as_json=as_json)


@app.command()
def delete(
    model: Name,
    id: Id,
    expect: Expect = None,
    request: RequestId = None,
    wait: Wait = WAIT_SECONDS,
    log: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Remove an id, and wait until the model has decided on it."""
    _request("delete", model, id, None, expect, request, wait, log, as_json=as_json)


def _request(
    kind: RequestKind,
    model: str,
    id: str,
    diff: str | None,
    expect: str | None,
    request: str | None,
    wait: float,
    log: str | None,
    *,
    as_json: bool,
) -> None:
    raw = None if diff is None else msgspec.Raw(diff.encode())
    made = request_of(kind, raw, expect=expect, request=request, actor=user_name())
    with opened(log) as (opened_log, _):
        found = find_model(opened_log, model)
        outcome = found.request(id, made, wait)
    if as_json:
        print_json({"id": id, "outcome": outcome.code, "token": outcome.token, "request": outcome.request})
    else:
        print_line(
            f"{outcome.code} ", (printable(id), "bold"), f" at {found.app}/{found.name}: {outcome.token}"
        )


@app.command()
def history(model: Name, id: Id, log: LogUrl = None, as_json: AsJson = False) -> None:
    """Show the versions of an id, oldest first."""
    with opened(log) as (opened_log, _):
        events = list(find_model(opened_log, model).history(id))
    if as_json:
        print_json(events)
        return
    print_table(
        [
            (
                when(one.at),
                f"{one.life}",
                f"{one.sequence}",
                one.kind,
                one.origin,
                msgspec.json.encode(one.patch).decode(),
            )
            for one in events
        ],
        ("at", "life", "sequence", "kind", "from", "patch"),
    )


@app.command()
def types(model: Name, log: LogUrl = None) -> None:
    """Print TypeScript types of a model's states and diffs."""
    with opened(log) as (opened_log, _):
        found = find_model(opened_log, model)
    name = type_name(found.name)
    print_line(
        declarations({f"{name}State": found.entry.state, f"{name}Diff": found.entry.diff}).rstrip("\n")
    )
