"""`tidegate state`: the stores on this host, and whether they equal their changelogs."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli.options import MOST, AsJson, KeyType, ValueType
from tidegate.cli.output import print_error, print_json, print_line, print_table
from tidegate.cli.state_check import App, Folder, check_stores
from tidegate.config.config import load_config
from tidegate.errors import StateError
from tidegate.state.formats import LAYOUTS, session_times, time_of, window_start
from tidegate.state.inspect import Found, find_folders, rows_of
from tidegate.state.inspect import opened as opened_folder
from tidegate.state.keys import Bound
from tidegate.text.parse import from_text
from tidegate.text.render import ValueKind, as_json, shown, when

app = typer.Typer(help="State stores on this host, as committed to disk.", no_args_is_help=True)

Store = Annotated[str, typer.Argument(metavar="STORE", help="The store.")]
PLAIN_NAMES = {kind.value: kind for kind in ValueKind}

Shown = tuple[Found, str, bytes, bytes]
"""A row: where it was found, its store, key and value."""


@app.command("ls")
def list_stores(of_app: App = None, state_dir: Folder = None, json: AsJson = False) -> None:
    """List tasks and their stores."""
    folders, unreadable = _folders(state_dir, of_app)
    rows = [_facts(found, store) for found in folders for store in sorted(found.metadata.stores)]
    if json:
        print_json({"stores": rows, "unreadable": [error.as_dict() for error in unreadable]})
    elif not rows:
        print_line("no state on this host yet")
    else:
        heading = ("app", "task", "store", "kind", "rows", "changelog offset", "current at")
        cells = [
            (
                r["app"],
                r["task"],
                r["store"],
                r["kind"],
                _count(r["rows"]),
                _count(r["offset"]),
                _time(r["current_at"]),
            )
            for r in rows
        ]
        print_table(cells, heading)
    _exit_if_unreadable(unreadable, json=json, reported=json)


@app.command("get")
def get(
    store: Store,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key.")],
    of_app: App = None,
    state_dir: Folder = None,
    key_type: KeyType = None,
    value_type: ValueType = None,
    json: AsJson = False,
) -> None:
    """Print the rows of a store for a key."""
    rows: list[Shown] = []
    folders, unreadable = _folders(state_dir, of_app)
    for found in _with_store(folders, unreadable, store):
        data = from_text(os.fsencode(key), key_type or _plain(found.metadata.stores[store].key))
        rows += _scan(found, store, (data, b""), (data + b"\x00", b""))
    _print_rows(rows, key_type, value_type, json=json)
    _exit_if_unreadable(unreadable, json=json)


@app.command("range")
def scan(
    store: Store,
    start: Annotated[str | None, typer.Option("--from", metavar="KEY", help="The first key.")] = None,
    stop: Annotated[str | None, typer.Option("--to", metavar="KEY", help="Up to below this key.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="At most so many rows.")] = 100,
    of_app: App = None,
    state_dir: Folder = None,
    key_type: KeyType = None,
    value_type: ValueType = None,
    json: AsJson = False,
) -> None:
    """Print rows of a store, task by task, in the order of their keys."""
    rows: list[Shown] = []
    folders, unreadable = _folders(state_dir, of_app)
    for found in _with_store(folders, unreadable, store):
        kind = key_type or _plain(found.metadata.stores[store].key)
        lower = None if start is None else (from_text(os.fsencode(start), kind), b"")
        upper = None if stop is None else (from_text(os.fsencode(stop), kind), b"")
        rows += _scan(found, store, lower, upper, limit - len(rows))
    _print_rows(rows, key_type, value_type, json=json)
    _exit_if_unreadable(unreadable, json=json)


app.command("check")(check_stores)


def _folders(state_dir: Path | None, of_app: str | None) -> tuple[list[Found], list[StateError]]:
    """The folders that can be read, and those that cannot."""
    config = load_config()
    unreadable: list[StateError] = []
    return find_folders(state_dir or config.folder / config.state_dir, of_app, unreadable), unreadable


def _with_store(folders: list[Found], unreadable: list[StateError], store: str) -> list[Found]:
    """The tasks that have the store. Raises if none has it, unless a folder that cannot be read may."""
    having = [found for found in folders if store in found.metadata.stores]
    if not (having or unreadable):
        known = sorted({name for found in folders for name in found.metadata.stores})
        raise StateError(
            "no-such-store",
            f"no task on this host has a store {store!r}",
            f"stores here are: {', '.join(known) or 'none'}",
        )
    return having


def _exit_if_unreadable(unreadable: list[StateError], *, json: bool, reported: bool = False) -> None:
    """Report unreadable folders with exit code 1: rows may be missing."""
    for error in () if reported else unreadable:
        print_error(error, json=json)
    if unreadable:
        raise typer.Exit(1)


def _scan(
    found: Found, store: str, lower: Bound | None, upper: Bound | None, limit: int | None = None
) -> list[Shown]:
    with opened_folder(found.folder) as environment:
        rows = rows_of(environment, found.metadata, store).scan(lower, upper)
        return [(found, store, row, value) for row, value in islice(rows, limit)]


def _print_rows(
    rows: list[Shown], key_type: ValueKind | None, value_type: ValueKind | None, *, json: bool
) -> None:
    for found, store, row, value in rows:
        facts = found.metadata.stores[store]
        layout = LAYOUTS[facts.kind]
        key = row[: len(row) - layout.suffix]
        data = value[8:] if layout.timestamped else value
        kinds = key_type or _plain(facts.key), value_type or _plain(facts.value)
        times = _times(facts.kind, row, value)
        if json:
            fields = {"task": str(found.metadata.task), "key": as_json(key, kinds[0]), **times}
            print_json({**fields, "value": as_json(data, kinds[1])})
        else:
            note = "".join(f"  {name} {when(at)}" for name, at in times.items())
            print_line((shown(key, kinds[0]), "bold"), "  ", shown(data, kinds[1]), (note, "dim"))
    if not rows and not json:
        print_line(("no rows", "dim"))


def _times(kind: str, row: bytes, value: bytes) -> dict[str, int]:
    if kind == "timestamped":
        return {"timestamp": time_of(value)}
    if kind == "window":
        return {"start": window_start(row)}
    if kind == "session":
        end, start = session_times(row)
        return {"start": start, "end": end}
    return {}


def _plain(serde: str) -> ValueKind | None:
    """The type to show by default: that of the store, if it is a plain type."""
    return PLAIN_NAMES.get(serde)


def _facts(found: Found, store: str) -> dict[str, Any]:
    metadata, facts = found.metadata, found.metadata.stores[store]
    with opened_folder(found.folder) as environment:
        rows = environment.rows(store) if environment.has(store) else None
    return {
        "app": metadata.app,
        "task": str(metadata.task),
        "store": store,
        "kind": facts.kind,
        "rows": rows,
        "bytes": found.bytes,
        "changelog": facts.changelog,
        "offset": metadata.offsets.get(store),
        "current_at": metadata.current_at.get(store),
        "key": facts.key,
        "value": facts.value,
    }


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _time(millis: int | None) -> str:
    return "-" if millis is None else when(millis)
