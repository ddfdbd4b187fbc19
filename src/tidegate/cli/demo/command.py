"""`tidegate demo`: orders -> gate -> totals at work, and with --only-log the log alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.durations import seconds as seconds_option
from tidegate.cli.options import AsJson
from tidegate.errors import ConfigError


def demo(
    folder: Annotated[
        Path | None,
        typer.Option("--folder", help="Where to make it; default: a temporary folder.", show_default=False),
    ] = None,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="On Kafka: a broker of its own, started and ended by the demo.")
    ] = False,
    seconds: Annotated[
        float | None,
        seconds_option(
            "--seconds",
            "Pause and resume a customer by itself, check the order, and end after about so long. "
            "Default where there is no terminal: 15.",
            least=3,
        ),
    ] = None,
    only_log: Annotated[bool, typer.Option("--only-log", help="Show the log alone, without Spark.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="With --only-log --kafka: leave the broker up until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show orders, a gate and totals at work on Spark, live, with commands to try. Ctrl-C ends it."""
    _check(folder, kafka=kafka, seconds=seconds, only_log=only_log, keep=keep)
    if only_log:
        from tidegate.cli.demo import log_story as demo_log

        demo_log.only_log(folder, kafka=kafka, keep=keep, as_json=as_json)
    else:
        from tidegate.cli.demo import orders as demo_orders

        demo_orders.orders(folder, kafka=kafka, seconds=seconds, as_json=as_json)


def _check(folder: Path | None, *, kafka: bool, seconds: float | None, only_log: bool, keep: bool) -> None:
    if kafka and folder is not None:
        raise ConfigError("bad-option", "with --kafka nothing is left in a folder", "leave --folder out")
    if keep and not (only_log and kafka):
        raise ConfigError(
            "bad-option", "--keep is for --only-log --kafka", "without them what was made is kept anyway"
        )
    if only_log and seconds is not None:
        raise ConfigError("bad-option", "--only-log takes as long as it takes", "leave --seconds out")
