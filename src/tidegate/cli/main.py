"""The entry point: commands, and how a failure is told.

0    done
1    a TidegateError: one red line `[code] message  Do: hint` on stderr, or {"error": ...} with --json
2    used wrongly: an unknown option, a missing argument
130  stopped with Ctrl-C;  141  the reader of a pipe went away. Both say nothing.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tidegate.cli import apps, demo, doctor, gates, reset, run, serve, state, topics
from tidegate.cli.options import JSON_KEY
from tidegate.cli.output import say, say_error
from tidegate.errors import TidegateError

INTERRUPTED = 130
PIPE_CLOSED = 141


class Commands(TyperGroup):
    """The outermost group: every command runs inside its `invoke`."""

    def invoke(self, ctx: Any) -> Any:
        try:
            code = self._invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _forget_stdout()
            code = PIPE_CLOSED
        except KeyboardInterrupt:
            code = INTERRUPTED
        if code:
            raise typer.Exit(code)

    def _invoke(self, ctx: Any) -> int:
        try:
            super().invoke(ctx)
        except TidegateError as error:
            say_error(error, json=ctx.meta.get(JSON_KEY, False))
            return 1
        return 0


app = typer.Typer(
    cls=Commands,
    name="tidegate",
    help="Stateful stream processing in Python on Apache Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(topics.app, name="topics")
app.add_typer(state.app, name="state")
app.add_typer(gates.app, name="gates")
app.add_typer(serve.tokens, name="tokens")
app.command("pause")(gates.pause)
app.command("resume")(gates.resume)
app.command("demo")(demo.demo)
app.command("run")(run.run)
app.command("serve")(serve.serve)
app.command("stop")(apps.stop)
app.command("describe")(apps.describe)
app.command("lag")(apps.lag)
app.command("reset")(reset.reset)
app.command("doctor")(doctor.doctor)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # slow to load, and seldom wanted

        say(f"tidegate {version('tidegate')}")
        raise typer.Exit


@app.callback()
def options(
    shown: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Stateful stream processing in Python on Apache Spark."""


def main() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    app(prog_name="tidegate")


def _forget_stdout() -> None:
    """Nobody reads it any more; without this the interpreter complains when it flushes at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
