"""`tidegate run`: start Spark, restore, and process until the app is stopped."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.app import App
from tidegate.changes.unchanged import check_not_former, check_unchanged
from tidegate.cli.options import AsJson, LogUrl, user_name
from tidegate.cli.output import print_json, print_note
from tidegate.cli.progress_line import ProgressLine
from tidegate.cli.run_screen import RunScreen
from tidegate.clock import SystemClock
from tidegate.config.config import Config, load_config
from tidegate.config.spark import spark_settings
from tidegate.errors import ConfigError, TidegateError, UpgradeError
from tidegate.load import load_app
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.protocol import Log
from tidegate.runtime.driver.app_topics import check_sources
from tidegate.runtime.driver.check_registry import check_registry
from tidegate.runtime.driver.first_start import check_first_start
from tidegate.runtime.topics.decisions import DecidedBy
from tidegate.runtime.topics.manifests import former_manifests, recorded_code
from tidegate.runtime.topics.upgrades import Question, UpgradeEntry
from tidegate.serde.registry_settings import use_registry
from tidegate.topology.code import Code
from tidegate.topology.graph import Topology
from tidegate.upgrade.consent import Consent, not_allowed
from tidegate.upgrade.make_plan import make_plan

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
    """Run an app on Spark, after an upgrade if its code changed. Ctrl-C commits, closes and ends."""
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
    with quiet_java(debug):
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
            code = Code(topology.module)
            check_not_former(topology, known, former_manifests(log, known), code)
            try:
                check_unchanged(topology, known, code, partial(recorded_code, log, known))
            except UpgradeError:
                if config.upgrade.mode != "auto":
                    raise
                _check_upgrade(log, topology, Consent.of(config.upgrade))


def _check_upgrade(log: Log, topology: Topology, consent: Consent) -> None:
    """Raise UpgradeError `upgrade-waits` if something must be decided before an upgrade."""
    left = consent.open(make_plan(log, topology, SystemClock()).questions)
    if left:
        raise not_allowed(topology.app, left)


class _Waiting:
    """Reports once that an upgrade waits for consent, and goes on waiting."""

    def __init__(self) -> None:
        self._reported: list[Question] = []

    def __call__(self, entry: UpgradeEntry) -> bool:
        if entry.questions != self._reported:
            self._reported = entry.questions
            for question in entry.questions:
                print_note(f"waiting for consent: {question.text}  Do: {question.consent}")
        return True


def _run(
    app: App, config: Config, spark: dict[str, Any], slots: int | None, *, until_caught_up: bool, json: bool
) -> None:
    try:
        from tidegate.spark.running import Running, Upgrading
        from tidegate.spark.session import end_session, start_session
    except ImportError as error:
        raise ConfigError(
            "no-pyspark", f"Spark is not installed: {error}", "pip install tidegate[spark]"
        ) from None
    screen = RunScreen(app.id, json=json)
    screen.print_line("starting Spark")
    session, slots = start_session(app.id, spark, slots, stages=bool(app.build().stages()), archive=True)
    try:
        with ProgressLine(app.id) as line:
            running = Running(
                app,
                config.app or "",
                session,
                config,
                slots=slots,
                until_caught_up=until_caught_up,
                upgrading=Upgrading(
                    Consent.of(config.upgrade, by=DecidedBy(user_name(), via="settings")), _Waiting(), line
                ),
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
        end_session(session, screen.print_line)


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
def quiet_java(debug: bool) -> Iterator[None]:
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
