"""`tidegate demo`: orders -> gate -> totals, on Spark, with the HTTP server.

1 make the folder and the topic; 2 start the server and the app, each a process of its own, and the source;
3 show what happens, until Ctrl-C or until the story is played; 4 stop the source, the app and the server, in
this order.
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

from tidegate.cli.demo.api import Api
from tidegate.cli.demo.broker import own_broker
from tidegate.cli.demo.folder import PARTITIONS, make_folder
from tidegate.cli.demo.processes import Child
from tidegate.cli.demo.running import LOOK_SECONDS, Scene, failed
from tidegate.cli.demo.screen import Screen
from tidegate.cli.demo.script import CUSTOMER, START_SECONDS, check_sums, play
from tidegate.cli.demo.source import ORDERS, PER_SECOND, Source
from tidegate.cli.demo.watch import GATE, Snapshot, Watch
from tidegate.connect.connect import connect
from tidegate.connect.connection import Connection
from tidegate.log.ensure import ensure_topic

SLOTS = "2"
STORY_SECONDS = 15.0
SETTLE_SECONDS = 10.0
"""Without progress: then what is still on its way stays there."""


def orders(folder: Path | None, *, kafka: bool, seconds: float | None, as_json: bool) -> None:
    """The demo, to its end."""
    view = Screen(json=as_json)
    if seconds is None and not view.attended:
        seconds = STORY_SECONDS
    with _ending_on_signals(), ExitStack() as stack:
        url = None
        if kafka:
            url = stack.enter_context(own_broker())
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-demo-")))
        else:
            place = Path(tempfile.mkdtemp(prefix="tidegate-demo-")) if folder is None else folder.absolute()
        config = make_folder(place, url)
        on = "Kafka" if kafka else "the embedded log"
        view.tell(
            "starting",
            f"tidegate demo: orders -> gate -> totals, on {on} and local Spark, in {place}",
            log=config.log,
            folder=str(place),
        )
        with connect(config=config) as connection:
            _run(place, connection, seconds, view)
        if not kafka:
            again = f"cd {shlex.quote(str(place))} && {_tidegate()} run"
            view.tell("kept", f"Everything is kept. To go on where it ended: {again}", folder=str(place))


def _run(folder: Path, connection: Connection, seconds: float | None, view: Screen) -> None:
    ensure_topic(
        connection.log, ORDERS.name, table=False, partitions=None, default=PARTITIONS, config=ORDERS.config
    )
    view.tell("processes", f"  starting the HTTP server, Spark with {SLOTS} slots, {PER_SECOND} orders/s ...")
    began = time.monotonic()
    with (
        view,
        Child(folder, "serve", "--json") as server,
        Child(folder, "run", "--slots", SLOTS) as app,
        Source(connection) as source,
    ):
        url = _url(server)
        view.tell("serving", url=url, pids=[server.pid, app.pid])
        _what_to_try(view, folder, url)
        with closing(Watch(Api(url), lambda: source.sent, began)) as watch:
            scene = Scene([server, app], watch, view)
            if seconds is None:
                _until_ctrl_c(scene)
            else:
                play(scene, source, connection, seconds)
            source.stop()
            last = _settled(scene)
            if seconds is None:
                _check_what_came_through(last, connection, source, view)
        view.tell("ending", "  ending the source, then the app, then the server ...")
    view.tell(
        "ended",
        f"  {last.sent:,} orders sent, {last.passed:,} passed the gate, {last.out_of_turn:,} out of turn, "
        f"{last.held:,} wait",
        **msgspec.to_builtins(last),
    )


def _until_ctrl_c(scene: Scene) -> None:
    """That is how it ends on a terminal, so it is no failure."""
    with suppress(KeyboardInterrupt):
        while True:
            scene.go_on(LOOK_SECONDS)


def _settled(scene: Scene) -> Snapshot:
    """What was sent last comes through soon, unless something holds it up."""
    deadline, before = 0.0, (-1, -1)
    while True:
        now = scene.look()
        if (progress := (now.passed, now.outputs)) != before:
            deadline, before = time.monotonic() + SETTLE_SECONDS, progress
        through = now.sent <= now.passed + now.held and now.passed <= now.outputs
        if not now.slots or through or time.monotonic() > deadline:
            return now
        time.sleep(LOOK_SECONDS / 2)


def _check_what_came_through(last: Snapshot, connection: Connection, source: Source, view: Screen) -> None:
    if last.sent == last.passed == last.outputs:
        check_sums(connection, source, view)
    else:
        view.tell(
            "unchecked", "  not all orders have come through, so the totals were not compared with them"
        )


def _url(server: Child) -> str:
    """Where the server listens, once it does."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        for line in server.lines():
            with suppress(msgspec.DecodeError):
                told = msgspec.json.decode(line)
                if isinstance(told, dict) and "url" in told:
                    return str(told["url"])
        server.check()
        time.sleep(0.05)
    raise failed(f"the server does not listen after {START_SECONDS:.0f} s; {server.file} has what it said")


def _what_to_try(view: Screen, folder: Path, url: str) -> None:
    command = _tidegate()
    view.tell("try", f"  {url} answers. Try, in another terminal:")
    for text in (
        f"cd {shlex.quote(str(folder))}",
        f"{command} pause {GATE} {CUSTOMER} --reason chargeback   # the others go on",
        f"{command} gates held {GATE} {CUSTOMER} --limit 5",
        f"{command} resume {GATE} {CUSTOMER}   # what waited goes out first",
        f"{command} gates history {GATE} {CUSTOMER}",
        f"curl -X POST '{url}/gates/{GATE}/keys/bob/pause'",
    ):
        view.command(text)


def _tidegate() -> str:
    """How this command is called from anywhere."""
    called = Path(sys.argv[0])
    if called.name != "tidegate":
        return f"{shlex.quote(sys.executable)} -m tidegate"
    return "tidegate" if shutil.which("tidegate") else shlex.quote(str(called.absolute()))


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """SIGTERM and a terminal that is closed end it as Ctrl-C does: nothing is left behind."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
