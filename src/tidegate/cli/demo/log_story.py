"""`tidegate demo --only-log`: the log at work, told as a short story with figures."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

import msgspec

from tidegate.cli.demo.log_run import ORDERS, ORDERS_EACH, TOTALS, WRITERS, Figures, Place, run
from tidegate.cli.demo.logs import FileLog, own_broker
from tidegate.cli.output import note, say, say_json
from tidegate.errors import ConfigError

FILE = "log.db"


def only_log(folder: Path | None, *, kafka: bool, keep: bool, as_json: bool) -> None:
    """Transactions, a follower, an abort, a zombie, compaction. Takes some seconds."""
    if kafka:
        with own_broker() as (url, place):
            _show(url, f"at {url}", place, kept=keep, as_json=as_json)
            if keep:
                note("the broker runs until Ctrl-C")
                signal.pause()
        return
    file = _new_file(folder)
    _show(f"sqlite:///{file}", f"in {file}", FileLog(file), kept=True, as_json=as_json)


def _show(url: str, where: str, place: Place, *, kept: bool, as_json: bool) -> None:
    if not as_json:
        _opening("the embedded log" if isinstance(place, FileLog) else "the log on Kafka", where)
    figures = run(place)
    if as_json:
        say_json({"log": url, **msgspec.to_builtins(figures)})
        return
    _story(figures)
    if kept:
        _next_steps(url)


def _new_file(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="tidegate-demo-")) / FILE
    file = folder.absolute() / FILE
    if file.exists():
        raise ConfigError("folder-in-use", f"{file} exists", "name another folder, or remove the file")
    return file


def _opening(what: str, where: str) -> None:
    say(("tidegate demo --only-log", "bold cyan"), f": {what} at work, ", (where, "dim"))
    say()
    say("  An event topic ", (ORDERS.name, "bold"), " and a table ", (TOTALS.name, "bold"), ".")
    say(f"  {WRITERS} writers send orders in transactions of {ORDERS_EACH}. A follower reads them and keeps")
    say("  the total of each customer; it commits totals and its position in one transaction.")
    say()


def _story(figures: Figures) -> None:
    _point(
        f"{figures.orders:,} orders in {figures.transactions} transactions, summed up in "
        f"{figures.follower_commits} commits: {figures.seconds} s, {figures.records_per_second:,} orders/s"
    )
    _point(f"an aborted transaction of {figures.aborted} orders: not one of them was ever read")
    _point(f"a zombie woke up and was refused: {figures.fenced}")
    _point(f"{figures.rows:,} customers: each total is the sum of its orders, each counted once and in order")
    _point(
        f"compaction kept {figures.records_after:,} of {figures.table_records:,} table records, one per "
        f"customer; the log went from {_size(figures.bytes_before)} to {_size(figures.bytes_after)}"
    )


def _point(text: str) -> None:
    say("  ", ("ok", "bold green"), f"  {text}")


def _next_steps(url: str) -> None:
    say()
    say("Try next:")
    for command in (
        f"tidegate topics tail {ORDERS.name} --log {url} --from-start --limit 5",
        f"tidegate topics rows {TOTALS.name} --log {url} --limit 5",
        f"tidegate topics describe {TOTALS.name} --log {url}",
        f'tidegate topics send {ORDERS.name} ada \'{{"id":1,"cents":500}}\' --log {url}',
    ):
        say(("  $ ", "dim"), command)


def _size(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB" if count >= 1 << 20 else f"{count / 1024:.0f} KiB"
