"""`tidegate demo`: orders -> gate -> totals, on Spark, with the HTTP server.

1 create the folder and the topic; 2 start the server and the app, each in a process of its own, and the
source; 3 show the numbers until Ctrl-C, or until the script has run; 4 stop the source, the app and the
server, in this order; 5 after the script, upgrade the app to a second version.
"""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import msgspec

from tidegate.cli.dashboard_url import dashboard_of
from tidegate.cli.demo.api import Api
from tidegate.cli.demo.broker import own_broker
from tidegate.cli.demo.folder import PARTITIONS, make_folder
from tidegate.cli.demo.processes import Child
from tidegate.cli.demo.running import REFRESH_SECONDS, RunningDemo, failed
from tidegate.cli.demo.screen import Screen
from tidegate.cli.demo.script import CUSTOMER, START_SECONDS, check_sums, run_script
from tidegate.cli.demo.source import ORDERS, PER_SECOND, Source
from tidegate.cli.demo.upgrade import show_upgrade
from tidegate.cli.demo.watch import GATE, Snapshot, Watch
from tidegate.connect.connect import connect
from tidegate.connect.connection import Connection
from tidegate.log.ensure import ensure_topic

SLOTS = "2"
SCRIPT_SECONDS = 15.0
SETTLE_SECONDS = 10.0
"""How long to wait for further progress at the end."""


def orders(folder: Path | None, *, kafka: bool, seconds: float | None, as_json: bool) -> None:
    """Run the demo to its end."""
    screen = Screen(json=as_json)
    if seconds is None and not screen.attended:
        seconds = SCRIPT_SECONDS
    with _ending_on_signals(), ExitStack() as stack:
        url = None
        if kafka:
            url = stack.enter_context(own_broker())
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-demo-")))
        else:
            directory = (
                Path(tempfile.mkdtemp(prefix="tidegate-demo-")) if folder is None else folder.absolute()
            )
        config = make_folder(directory, url)
        on = "Kafka" if kafka else "the embedded log"
        screen.report(
            "starting",
            f"tidegate demo: orders -> gate -> totals, on {on} and local Spark, in {directory}",
            log=config.log,
            folder=str(directory),
        )
        with connect(config=config) as connection:
            _run(directory, connection, seconds, screen)
        if not kafka:
            again = f"cd {shlex.quote(str(directory))} && {_tidegate()} run"
            screen.report("kept", f"Everything is kept. To continue: {again}", folder=str(directory))


def _run(folder: Path, connection: Connection, seconds: float | None, screen: Screen) -> None:
    ensure_topic(
        connection.log, ORDERS.name, table=False, partitions=None, default=PARTITIONS, config=ORDERS.config
    )
    screen.report(
        "processes", f"  starting the HTTP server, Spark with {SLOTS} slots, {PER_SECOND} orders/s ..."
    )
    began = time.monotonic()
    with (
        screen,
        Child(folder, "serve", "--json") as server,
        Child(folder, "run", "--slots", SLOTS) as app,
        Source(connection) as source,
    ):
        url = _url(server)
        screen.report("serving", url=url, dashboard=dashboard_of(url), pids=[server.pid, app.pid])
        _print_commands(screen, folder, url)
        with closing(Watch(Api(url), lambda: source.sent, began)) as watch:
            demo = RunningDemo([server, app], watch, screen)
            if seconds is None:
                _until_ctrl_c(demo)
            else:
                run_script(demo, source, connection, seconds)
            source.stop()
            last = _settled(demo)
            if seconds is None:
                _check_result(last, connection, source, screen)
        screen.report("ending", "  stopping the source, then the app, then the server ...")
    if seconds is not None:
        show_upgrade(folder, connection, SLOTS, screen)
    screen.report(
        "ended",
        f"  {last.sent:,} orders sent, {last.passed:,} passed the gate, {last.out_of_turn:,} out of turn, "
        f"{last.held:,} held",
        **msgspec.to_builtins(last),
    )


def _until_ctrl_c(demo: RunningDemo) -> None:
    """Run until Ctrl-C, which is the normal end on a terminal."""
    with suppress(KeyboardInterrupt):
        while True:
            demo.run_for(REFRESH_SECONDS)


def _settled(demo: RunningDemo) -> Snapshot:
    """Wait until all sent orders are processed or held, or nothing changes any more."""
    deadline, before = 0.0, (-1, -1)
    while True:
        now = demo.refresh()
        if (progress := (now.passed, now.outputs)) != before:
            deadline, before = time.monotonic() + SETTLE_SECONDS, progress
        through = now.sent <= now.passed + now.held and now.passed <= now.outputs
        if not now.slots or through or time.monotonic() > deadline:
            return now
        time.sleep(REFRESH_SECONDS / 2)


def _check_result(last: Snapshot, connection: Connection, source: Source, screen: Screen) -> None:
    if last.sent == last.passed == last.outputs:
        check_sums(connection, source, screen)
    else:
        screen.report("unchecked", "  not all orders have been processed, so the totals were not checked")


def _url(server: Child) -> str:
    """Wait until the server listens, and return its URL."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        for line in server.lines():
            with suppress(msgspec.DecodeError):
                printed = msgspec.json.decode(line)
                if isinstance(printed, dict) and "url" in printed:
                    return str(printed["url"])
        server.check()
        time.sleep(0.05)
    raise failed(f"the server does not listen after {START_SECONDS:.0f} s; its output is in {server.file}")


def _print_commands(screen: Screen, folder: Path, url: str) -> None:
    command = _tidegate()
    screen.report("try", f"  dashboard: {dashboard_of(url)}   Try, in another terminal:")
    for text in (
        f"cd {shlex.quote(str(folder))}",
        f"{command} pause {GATE} {CUSTOMER} --reason chargeback   # the others continue",
        f"{command} gates held {GATE} {CUSTOMER} --limit 5",
        f"{command} resume {GATE} {CUSTOMER}   # held orders are released first",
        f"{command} gates history {GATE} {CUSTOMER}",
        f"curl -X POST '{url}/gates/{GATE}/keys/bob/pause'",
    ):
        screen.command(text)


def _tidegate() -> str:
    """How to call this command from any folder."""
    called = Path(sys.argv[0])
    if called.name != "tidegate":
        return f"{shlex.quote(sys.executable)} -m tidegate"
    return "tidegate" if shutil.which("tidegate") else shlex.quote(str(called.absolute()))


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """End the demo in order on SIGTERM and when the terminal is closed, as on Ctrl-C."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
