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
        typer.Option(
            "--folder", help="The folder to create it in; default: a temporary folder.", show_default=False
        ),
    ] = None,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Use Kafka: the demo starts and stops a broker of its own.")
    ] = False,
    seconds: Annotated[
        float | None,
        seconds_option(
            "--seconds",
            "Pause and resume a customer automatically, check the order, and end after about this long. "
            "Default without a terminal: 15.",
            least=3,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show orders, a gate and totals at work on Spark, live, with commands to try. Ctrl-C ends it."""
    if kafka and folder is not None:
        raise ConfigError("bad-option", "with --kafka no folder is kept", "leave --folder out")
    from tidegate.cli.demo.orders import orders

    orders(folder, kafka=kafka, seconds=seconds, as_json=as_json)
