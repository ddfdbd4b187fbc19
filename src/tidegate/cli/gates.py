"""`tidegate pause`, `resume` and `gates`: hold and release the events of keys, and show them."""

from __future__ import annotations

import os
from itertools import islice
from typing import Annotated, Any

import typer

from tidegate.cli.durations import TEN_YEARS, seconds
from tidegate.cli.held_events import HeldView
from tidegate.cli.options import AsJson, KeyType, LogUrl, ValueType, opened, user_name
from tidegate.cli.output import print_json, print_line, print_note, print_table
from tidegate.clock import SystemClock
from tidegate.errors import ConfigError
from tidegate.gate.commands import Commanded
from tidegate.gate.formats import GATE_WIDE
from tidegate.gate.key_kinds import key_kind
from tidegate.gate.query import GateQuery, KeyState
from tidegate.log.protocol import Log
from tidegate.runtime.topics.manifests import manifests
from tidegate.text.parse import from_text
from tidegate.text.render import ValueKind, printable, when

app = typer.Typer(help="Gates of the apps on the log.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="GATE", help="The gate, or APP/GATE.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The key of the events.")]
SomeKey = Annotated[
    str | None, typer.Argument(metavar="KEY", help="The key of the events.", show_default=False)
]
AllKeys = Annotated[bool, typer.Option("--all-keys", help="All keys at once.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the audit topic.")]
Actor = Annotated[str | None, typer.Option("--actor", help="Who; default: you.", show_default=False)]
Wait = Annotated[float | None, seconds("--wait", "Wait until the gate has applied it.")]


def pause(
    gate: Name,
    key: SomeKey = None,
    gate_wide: AllKeys = False,
    reason: Reason = "",
    actor: Actor = None,
    lasts: Annotated[
        float | None, seconds("--for", "Then it ends by itself.", least=0.001, most=TEN_YEARS)
    ] = None,
    wait: Wait = None,
    key_type: KeyType = None,
    log: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Hold the events of a key from now on."""
    end = None if lasts is None else SystemClock().now() + round(lasts * 1000)

    def write(found: GateQuery, key_bytes: bytes) -> Commanded:
        details: dict[str, Any] = {"actor": actor or user_name(), "reason": reason, "expires_at": end}
        commander = found.commander
        return (
            commander.pause_all(**details)
            if key_bytes == GATE_WIDE
            else commander.pause(key_bytes, **details)
        )

    target = _Target(gate, key, key_type, gate_wide=gate_wide)
    _command("paused", target, write, wait, log, as_json=as_json)


def resume(
    gate: Name,
    key: SomeKey = None,
    gate_wide: AllKeys = False,
    reason: Reason = "",
    actor: Actor = None,
    wait: Wait = None,
    key_type: KeyType = None,
    log: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Release the held events of a key in order, then let new ones pass."""

    def write(found: GateQuery, key_bytes: bytes) -> Commanded:
        details = {"actor": actor or user_name(), "reason": reason}
        commander = found.commander
        return (
            commander.resume_all(**details)
            if key_bytes == GATE_WIDE
            else commander.resume(key_bytes, **details)
        )

    target = _Target(gate, key, key_type, gate_wide=gate_wide)
    _command("resumed", target, write, wait, log, as_json=as_json)


@app.command("list")
def list_gates(log: LogUrl = None, as_json: AsJson = False) -> None:
    """List the gates, with their paused keys and held events."""
    with opened(log) as (opened_log, _):
        gates = [_summary(gate) for gate in _gates(opened_log)]
    if as_json:
        print_json({"gates": gates})
    elif not gates:
        print_line("no gates on this log.  Do: use stream.gate(name) in an app, and run it")
    else:
        rows = [
            (
                f"{one['app']}/{one['gate']}",
                f"{one['paused']:,}",
                f"{one['held']:,}",
                f"{one['bytes']:,}",
                "paused" if one["gate_wide"] else "",
            )
            for one in gates
        ]
        print_table(rows, ("gate", "paused keys", "held events", "bytes", "whole gate"))


@app.command()
def show(
    gate: Name,
    key: SomeKey = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="At most so many.")] = 1000,
    key_type: KeyType = None,
    log: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show the status of a key, or of all keys that are paused or have held events."""
    with opened(log) as (opened_log, _):
        found = _found(opened_log, gate)
        if key is not None:
            states = [found.key(_bytes(found, key, key_type))]
        else:
            states = list(islice((one for one in found.states() if one.held), limit + 1))
        gate_wide = found.gate_wide()
    states, more = states[:limit], len(states) > limit
    if as_json:
        whole = {str(number): status.shown() for number, status in gate_wide.items()}
        keys = [_key_fields(one) for one in states]
        print_json({"gate": found.name, "gate_wide": whole, "keys": keys, "more": more})
        return
    if any(status.state == "PAUSED" for status in gate_wide.values()):
        print_line(("the gate is paused", "yellow"))
    print_table([_key_row(one) for one in states], ("key", "status", "epoch", "waiting", "by", "reason"))
    if more:
        print_note(f"more keys are held than these {limit:,}: raise --limit")


@app.command()
def held(
    gate: Name,
    key: Key,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many.")] = 20,
    full: Annotated[bool, typer.Option("--full", help="Show values whole, however long.")] = False,
    value_type: ValueType = None,
    key_type: KeyType = None,
    log: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show the held events of a key, oldest first, with their values."""
    with opened(log) as (opened_log, _):
        found = _found(opened_log, gate)
        key_bytes = _bytes(found, key, key_type)
        events = found.events(key_bytes, limit)
        waiting = found.key(key_bytes).buffered
    count = 0 if waiting is None else waiting.count
    view = HeldView(found.entry, value_type, full=full)
    if as_json:
        rows = [view.as_dict(number, one) for number, one in events]
        print_json({"gate": found.name, "held": count, "events": rows})
        return
    print_line(f"{count:,} events wait")
    print_table(
        [view.row(number, one) for number, one in events], ("sequence", "from", "time", "bytes", "value")
    )


@app.command()
def history(
    gate: Name,
    key: SomeKey = None,
    gate_wide: AllKeys = False,
    key_type: KeyType = None,
    log: LogUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show who paused and resumed a key, and why."""
    target = _Target(gate, key, key_type, gate_wide=gate_wide)
    with opened(log) as (opened_log, _):
        found = _found(opened_log, gate)
        audited = list(found.history(target.key_bytes(found)))
    if as_json:
        print_json({"gate": found.name, "history": audited})
        return
    print_table(
        [
            (when(one.at), one.state, f"{one.epoch}", one.cause, printable(one.actor), printable(one.reason))
            for one in audited
        ],
        ("at", "status", "epoch", "cause", "by", "reason"),
    )


# --- internal -----------------------------------------------------------------------------------------


class _Target:
    """The target of a command: a key, or the whole gate."""

    def __init__(self, gate: str, key: str | None, kind: ValueKind | None, *, gate_wide: bool) -> None:
        if key is None and not gate_wide:
            raise ConfigError("no-key", "the command names no key", "give a KEY, or --all-keys for all keys")
        if key is not None and gate_wide:
            raise ConfigError("bad-option", "KEY and --all-keys exclude each other", "leave one of them out")
        self.gate = gate
        self._key = key
        self._kind = kind

    def key_bytes(self, found: GateQuery) -> bytes:
        """The key as bytes, encoded as the gate's keys are."""
        return GATE_WIDE if self._key is None else _bytes(found, self._key, self._kind)


def _bytes(gate: GateQuery, key: str, kind: ValueKind | None) -> bytes:
    return from_text(os.fsencode(key), key_kind(gate.entry, kind))


def _command(
    done: str, target: _Target, write: Any, wait: float | None, log: str | None, *, as_json: bool
) -> None:
    with opened(log) as (opened_log, _):
        found = _found(opened_log, target.gate)
        key_bytes = target.key_bytes(found)
        marks = found.marks()
        written: Commanded = write(found, key_bytes)
        if wait is not None:
            found.wait_applied(key_bytes, written, marks, wait)
    applied = "applied" if wait is not None else "written"
    if as_json:
        epochs = {str(number): epoch for number, epoch in written.epochs.items()}
        print_json({"gate": found.name, "state": done, "epochs": epochs, "applied": wait is not None})
    else:
        who = "all keys" if key_bytes == GATE_WIDE else printable(key_bytes.decode(errors="replace"))
        print_line(f"{done} ", (who, "bold"), f" at {found.app}/{found.name}: {applied}")


def _gates(log: Log) -> list[GateQuery]:
    return [
        GateQuery(log, manifest, name, SystemClock())
        for manifest in manifests(log)
        for name in manifest.gates
    ]


def _found(log: Log, gate: str) -> GateQuery:
    """Find the gate of this name; raises if there is none, or more than one."""
    gates = _gates(log)
    fitting = [one for one in gates if gate in (one.name, f"{one.app}/{one.name}")]
    if not fitting:
        known = ", ".join(f"{one.app}/{one.name}" for one in gates) or "none"
        raise ConfigError("no-such-gate", f"no gate on this log is called {gate!r}", f"there is: {known}")
    if len(fitting) > 1:
        known = ", ".join(f"{one.app}/{one.name}" for one in fitting)
        raise ConfigError("which-app", f"more than one app has a gate {gate!r}", f"name one of: {known}")
    return fitting[0]


def _summary(gate: GateQuery) -> dict[str, Any]:
    totals = gate.totals()
    return {
        "app": gate.app,
        "gate": gate.name,
        "paused": totals.paused,
        "held": totals.held,
        "bytes": totals.bytes,
        "gate_wide": totals.gate_wide,
        **{what: getattr(gate.entry, what) for what in ("status", "trigger", "admitted", "audit")},
    }


def _key_fields(one: KeyState) -> dict[str, Any]:
    return {
        "key": one.key.decode(errors="backslashreplace"),
        "held": one.held,
        "status": None if one.status is None else one.status.shown(),
        "waiting": 0 if one.buffered is None else one.buffered.count,
        "bytes": 0 if one.buffered is None else one.buffered.bytes,
    }


def _key_row(one: KeyState) -> tuple[str, ...]:
    status, waiting = one.status, one.buffered
    return (
        printable(one.key.decode(errors="replace")),
        "-" if status is None else status.state,
        "-" if status is None else f"{status.epoch}",
        "0" if waiting is None else f"{waiting.count:,}",
        "" if status is None else printable(status.actor),
        "" if status is None else printable(status.reason),
    )
