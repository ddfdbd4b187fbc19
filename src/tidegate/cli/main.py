"""The entry point: commands, and how a failure is reported.

0    done
1    a TidegateError: one red line `[code] message  Do: hint` on stderr, or {"error": ...} with --json
2    wrong usage: an unknown option, a missing argument; reported in the same way, as `bad-usage`
4    an upgrade was cancelled from elsewhere: `upgrade-cancelled`. A supervisor should not start it again
`tidegate plan` has its own meaning of 2, and 3; `tidegate upgrade` and `rollback` of 3: see there.
130  stopped with Ctrl-C;  141  the reader of a pipe closed it. Both print nothing.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tidegate.cli import (
    apps,
    dead_letters,
    doctor,
    gates,
    generations,
    models,
    plan,
    reset,
    run,
    serve,
    sink,
    state,
    status,
    topics,
    upgrade,
)
from tidegate.cli.demo import command as demo
from tidegate.cli.options import JSON_KEY
from tidegate.cli.output import print_error, print_line, shortened
from tidegate.errors import ConfigError, TidegateError

INTERRUPTED = 130
PIPE_CLOSED = 141
WRONG_USAGE = 2
EXIT_CODES = {"upgrade-cancelled": 4}
"""Of errors that end with another code than 1."""


UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Typer has it under different names in different versions."""


class Commands(TyperGroup):
    """The outermost group: every command runs inside its `invoke`."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        try:
            return super().make_context(info_name, list(args), parent, **extra)
        except UsageError as error:
            if _is_help(error):
                raise
            print_error(_bad_usage(error), json="--json" in args)
            raise typer.Exit(WRONG_USAGE) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            code = self._invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            _drop_stdout()
            code = PIPE_CLOSED
        except KeyboardInterrupt:
            code = INTERRUPTED
        if code:
            raise typer.Exit(code)

    def _invoke(self, ctx: Any) -> int:
        given = [*getattr(ctx, "_protected_args", ()), *ctx.args]
        try:
            super().invoke(ctx)
        except TidegateError as error:
            print_error(error, json=ctx.meta.get(JSON_KEY, False))
            return EXIT_CODES.get(error.code, 1)
        except UsageError as error:
            if _is_help(error):
                raise
            print_error(_bad_usage(error), json=ctx.meta.get(JSON_KEY, "--json" in given))
            return WRONG_USAGE
        except BrokenPipeError:
            raise
        except OSError as error:
            print_error(_from_system(error), json=ctx.meta.get(JSON_KEY, False))
            return 1
        except UnicodeEncodeError as error:
            if not any(error.object in one for one in given):
                raise
            hint = "use UTF-8; for keys and values that are other bytes: --key-type bytes, --type bytes"
            refused = ConfigError("not-text", "an argument is not valid UTF-8", hint)
            print_error(refused, json=ctx.meta.get(JSON_KEY, False))
            return 1
        return 0


def _is_help(error: Exception) -> bool:
    """Whether a group was called without a command: then its help is printed."""
    return type(error).__name__ == "NoArgsIsHelpError"


def _from_system(error: OSError) -> ConfigError:
    where = f": {error.filename!r}" if error.filename is not None else ""
    return ConfigError(
        "os-error",
        shortened(f"{error.strerror or error}{where}"),
        "check the paths, their owner and mode, and the disk",
    )


def _bad_usage(error: Any) -> ConfigError:
    where = error.ctx.command_path if error.ctx is not None else "tidegate"
    message = " ".join(str(error.format_message()).split())
    return ConfigError("bad-usage", shortened(message), f"{where} --help")


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
app.add_typer(models.app, name="models")
app.add_typer(serve.tokens, name="tokens")
app.command("pause")(gates.pause)
app.command("resume")(gates.resume)
app.command("demo")(demo.demo)
app.command("run")(run.run)
app.command("plan")(plan.plan)
app.command("serve")(serve.serve)
app.command("sink")(sink.sink)
app.command("status")(status.status)
app.command("stop")(apps.stop)
app.command("describe")(apps.describe)
app.command("lag")(apps.lag)
app.command("reset")(reset.reset)
app.command("upgrade")(upgrade.upgrade)
app.command("rollback")(upgrade.rollback)
app.command("generations")(generations.generations)
app.command("finish")(generations.finish)
app.command("dead-letters")(dead_letters.dead_letters)
app.command("redrive")(dead_letters.redrive)
app.command("doctor")(doctor.doctor)


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version  # slow to load, and seldom needed

        print_line(f"tidegate {version('tidegate')}")
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


def _drop_stdout() -> None:
    """Replace stdout, which has no reader any more: the interpreter would fail to flush it at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
