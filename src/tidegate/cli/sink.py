"""`tidegate sink`: keep tables of databases equal to models and table topics."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidegate.cli.options import AsJson, LogUrl
from tidegate.cli.output import print_json, print_line, print_note
from tidegate.clock import SystemClock
from tidegate.config.config import Config, load_config
from tidegate.errors import ConfigError, TidegateError
from tidegate.load import load_app
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.reopening import ReopeningLog
from tidegate.serde.registry_settings import use_registry
from tidegate.topology.graph import Topology

if TYPE_CHECKING:
    from tidegate.sinks.settings import SinkSettings
    from tidegate.sinks.sink import Sink

LINE_SECONDS = 5.0


def sink(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="The section \\[sinks.NAME], or a URL; default: all sections."),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option("--model", help="With a URL: a model. May be repeated.")
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", help="With a URL: a table topic. May be repeated.")
    ] = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Work up to what there is now, then end.")
    ] = False,
    log: LogUrl = None,
    json: AsJson = False,
) -> None:
    """Copy models and table topics to databases. Ctrl-C and SIGTERM finish the transaction and end."""
    config = load_config({"log": log})
    settings = _settings(config, name, model or [], table or [])
    use_registry(config.registry)
    location, clock, ended = LogLocation.of(config), SystemClock(), threading.Event()
    with ExitStack() as stack:
        opened = stack.enter_context(
            closing(ReopeningLog(lambda: open_log(location, clock=clock, create=False)))
        )
        running = []
        for one, given in settings.items():
            printer = _Printer(one, json=json)
            made, database = _make_sink(opened, given, config, clock, printer)
            stack.callback(database.close)
            made.prepare()
            running.append(_Running(printer, made, ended, until_caught_up=until_caught_up))
        with _ending_on_signals(ended):
            _run(running)


def _settings(
    config: Config, name: str | None, models: list[str], tables: list[str]
) -> dict[str, SinkSettings]:
    from tidegate.sinks.settings import checked_settings, sink_settings

    if name is not None and "://" in name:
        return {"sink": checked_settings("the arguments", {"url": name, "models": models, "tables": tables})}
    if models or tables:
        hint = "write them into the section, or pass the URL of the database in place of its name"
        raise ConfigError("bad-option", "--model and --table go with a URL", hint)
    if name is None and not config.sinks:
        raise ConfigError("no-such-sink", "there is no section [sinks.NAME]", "see docs/sinks.md")
    return {one: sink_settings(config, one) for one in ([name] if name else sorted(config.sinks))}


def _make_sink(
    log: Any, settings: SinkSettings, config: Config, clock: SystemClock, printer: _Printer
) -> tuple[Sink, Any]:
    try:
        from tidegate.sinks.running import make_sink
    except ImportError as error:
        message = f"SQLAlchemy is not installed: {error}"
        raise ConfigError("no-database-client", message, "pip install tidegate[postgres]") from None
    return make_sink(log, settings, config.folder, _topology(settings, config), clock, printer.noticed)


def _topology(settings: SinkSettings, config: Config) -> Topology | None:
    """Return that of the app which declares the table topics; models need none."""
    name = settings.app or (config.app if settings.tables else None)
    if name is None:
        return None
    sys.path.insert(0, str(config.folder))
    return load_app(name, config.settings).build()


class _Printer:
    """Prints what one sink does."""

    def __init__(self, name: str, *, json: bool) -> None:
        self._name = name
        self._json = json
        self._printed: tuple[Any, ...] = ()

    def noticed(self, found: Any) -> None:
        """A partition is read from its start, or a record was skipped."""
        if isinstance(found, TidegateError):
            self._event("skipped", found.message, code=found.code, hint=found.hint)
        else:
            text = f"reading {found.partition} from the start: {found.why}"
            self._event("reading", text, partition=str(found.partition), why=found.why)

    def retried(self, error: TidegateError) -> bool:
        """Whether the sink tries again after a failure."""
        if error.retryable:
            self._event("failure", f"{error}; trying again", **error.as_dict())
        return error.retryable

    def progress(self, sink: Sink, *, at_end: bool = False) -> None:
        """Print the counts, if they changed."""
        counts, behind = sink.counts, sum(sink.behind.copy().values())
        shown = counts.records, counts.written, counts.deleted, counts.swept, counts.skipped, behind
        if shown == self._printed and not at_end:
            return
        self._printed = shown
        names = ("records", "written", "deleted", "swept", "skipped", "behind")
        if self._json:
            print_json({"sink": self._name, **dict(zip(names, shown, strict=True))})
            return
        more = f", {counts.swept:,} swept" if counts.swept else ""
        more += f", {counts.skipped:,} skipped" if counts.skipped else ""
        left = f"; {behind:,} behind" if behind else ""
        rows = f"{counts.written:,} rows written, {counts.deleted:,} deleted{more}"
        print_line((f"{self._name}: ", "bold"), f"{counts.records:,} records, {rows}{left}")

    def _event(self, event: str, text: str, **fields: Any) -> None:
        if self._json:
            print_json({"sink": self._name, "event": event, **fields})
        else:
            print_note(f"{self._name}: {text}")


class _Running:
    """One sink in its thread."""

    def __init__(
        self, printer: _Printer, sink: Sink, ended: threading.Event, *, until_caught_up: bool
    ) -> None:
        self.error: BaseException | None = None
        self._printer = printer
        self._sink = sink
        self._ended = ended
        self._until_caught_up = until_caught_up
        self.thread = threading.Thread(target=self._work, daemon=True)

    def progress(self, *, at_end: bool = False) -> None:
        self._printer.progress(self._sink, at_end=at_end)

    def _work(self) -> None:
        from tidegate.sinks.running import run_sink

        try:
            run_sink(self._sink, self._ended, self._printer.retried, until_caught_up=self._until_caught_up)
        except BaseException as error:  # noqa: BLE001 - raised again by the main thread
            self.error = error
            self._ended.set()


def _run(running: list[_Running]) -> None:
    """Run all sinks until each has ended; the first error ends all of them and is raised."""
    for one in running:
        one.thread.start()
    for one in running:
        while one.thread.is_alive():
            one.thread.join(LINE_SECONDS)
            if one.thread.is_alive():
                for each in running:
                    each.progress()
    for one in running:
        one.progress(at_end=True)
    failed = next((one.error for one in running if one.error is not None), None)
    if failed is not None:
        raise failed


@contextmanager
def _ending_on_signals(ended: threading.Event) -> Iterator[None]:
    """Finish the open transaction and end, on SIGINT and SIGTERM."""

    def end(number: int, _frame: object) -> None:
        print_note(f"{signal.Signals(number).name}: finishing the transaction")
        ended.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
