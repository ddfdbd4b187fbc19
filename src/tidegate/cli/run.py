"""`tidegate run`: start Spark, restore, and process until the app is stopped."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.app import App
from tidegate.cli.options import AsJson, LogUrl
from tidegate.cli.output import print_json, print_note
from tidegate.cli.run_screen import RunScreen
from tidegate.config.config import Config, load_config
from tidegate.config.spark import spark_settings
from tidegate.errors import ConfigError, TidegateError
from tidegate.load import load_app
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.runtime.driver.app_topics import check_sources
from tidegate.runtime.driver.check_registry import check_registry
from tidegate.runtime.driver.first_start import check_first_start
from tidegate.serde.registry_settings import use_registry
from tidegate.topology.differences import check_unchanged

REFRESH_SECONDS = 0.25


def run(
    name: Annotated[
        str | None, typer.Argument(metavar="[MODULE:NAME]", help="The app; default: `app` of tidegate.toml.")
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", help="Where Spark runs; default local[*].")
    ] = None,
    slots: Annotated[
        int | None, typer.Option("--slots", min=1, help="How many slots; default: one per core.")
    ] = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Work up to what there is now, then end.")
    ] = False,
    log: LogUrl = None,
    state_dir: Annotated[
        Path | None, typer.Option("--state-dir", help="In place of `state_dir` of tidegate.toml.")
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show stack traces, Java's too.")] = False,
    json: AsJson = False,
) -> None:
    """Run an app on Spark. Ctrl-C commits, closes and ends."""
    config = load_config(
        {"app": name, "log": log, "state_dir": None if state_dir is None else str(state_dir)}
    )
    if config.app is None:
        raise ConfigError(
            "no-app", "no app is named", 'tidegate run module:name, or app = "..." in tidegate.toml'
        )
    spark_settings(config.spark)
    sys.path.insert(0, str(config.folder))
    app = load_app(config.app, config.settings)
    _check(app, config)
    spark = {**config.spark, **({"master": master} if master else {})}
    with _quiet_java(debug):
        try:
            _run(app, config, spark, slots, until_caught_up=until_caught_up, json=json)
        except TidegateError:
            if debug:
                traceback.print_exc()
            raise


def _check(app: App, config: Config) -> None:
    """Find errors that need no Spark, since Spark takes long to start."""
    topology = app.build()
    use_registry(config.registry)
    check_registry(topology)
    with closing(open_log(LogLocation.of(config), create=False)) as log:
        check_sources(log, topology)
        known = check_first_start(log, topology)
        if known is not None:
            check_unchanged(topology, known)


def _run(
    app: App, config: Config, spark: dict[str, Any], slots: int | None, *, until_caught_up: bool, json: bool
) -> None:
    try:
        from tidegate.spark.running import Running
        from tidegate.spark.session import start_session
    except ImportError as error:
        raise ConfigError(
            "no-pyspark", f"Spark is not installed: {error}", "pip install tidegate[spark]"
        ) from None
    screen = RunScreen(app.id, json=json)
    screen.print_line("starting Spark")
    session, slots = start_session(app.id, spark, slots, stages=bool(app.build().stages()))
    try:
        running = Running(
            app, config.app or "", session, config, slots=slots, until_caught_up=until_caught_up
        )
        with _stopping_on_signals(running), screen:
            try:
                while not running.wait(REFRESH_SECONDS):
                    screen.show(running.state.value, running.view)
            finally:
                screen.show_events(running.view)
        screen.ended(running.state.value, running.view)
        if json:
            print_json({"app": app.id, "state": running.state.value, "records": running.view.records})
    finally:
        with suppress(Exception):
            session.stop()


@contextmanager
def _stopping_on_signals(running: Any) -> Iterator[None]:
    """Stop the app on SIGINT and SIGTERM. Must be entered after Spark has installed its own handler, which
    would cancel all jobs before they commit."""

    def stop(number: int, _frame: object) -> None:
        print_note(f"{signal.Signals(number).name}: committing and closing")
        running.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _quiet_java(debug: bool) -> Iterator[None]:
    """Drop what Java writes to stderr, unless --debug is set; Python's stderr still works."""
    if debug:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    silent = os.open(os.devnull, os.O_WRONLY)
    python_stderr = os.fdopen(os.dup(kept), "w", buffering=1)
    before, sys.stderr = sys.stderr, python_stderr
    os.dup2(silent, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        sys.stderr = before
        python_stderr.close()
        os.close(kept)
        os.close(silent)
