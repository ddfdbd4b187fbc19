"""`tidegate demo`: its options."""

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
    as_json: AsJson = False,
) -> None:
    """Show orders, a gate and totals at work on Spark, live, with commands to try. Ctrl-C ends it."""
    if kafka and folder is not None:
        raise ConfigError("bad-option", "with --kafka nothing is left in a folder", "leave --folder out")
    from tidegate.cli.demo.orders import orders

    orders(folder, kafka=kafka, seconds=seconds, as_json=as_json)
