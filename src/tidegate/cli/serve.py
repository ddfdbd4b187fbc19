"""`tidegate serve` and `tidegate tokens`: the HTTP API, and who may call it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.dashboard_url import dashboard_of
from tidegate.cli.options import AsJson, LogUrl
from tidegate.cli.output import print_json, print_line, print_table
from tidegate.config.config import Config, load_config
from tidegate.errors import ConfigError

tokens = typer.Typer(help="Tokens of the HTTP API.", no_args_is_help=True)

DEFAULT_FILE = ".tidegate/tokens.json"
File = Annotated[
    Path | None,
    typer.Option("--file", help="In place of `tokens` of \\[server] in tidegate.toml.", show_default=False),
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the caller; kept in the audit topic.")]


def serve(
    host: Annotated[
        str | None,
        typer.Option("--host", help="The address to listen on; default 127.0.0.1.", show_default=False),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65_535, help="Default 8470; 0 takes any.", show_default=False),
    ] = None,
    tokens_file: Annotated[
        Path | None,
        typer.Option(
            "--tokens", help="The file of tokens; calls without one are refused.", show_default=False
        ),
    ] = None,
    log: LogUrl = None,
    json: AsJson = False,
) -> None:
    """Serve gates, stores, topics and apps of the log over HTTP, and the dashboard, until Ctrl-C."""
    try:
        from tidegate.server.serve import serve as run
        from tidegate.server.settings import server_settings
    except ImportError as error:
        raise ConfigError(
            "no-server", f"the server is not installed: {error}", "pip install tidegate[server]"
        ) from None
    config = load_config({"log": log})
    given = {
        "host": host,
        "port": port,
        "tokens": None if tokens_file is None else str(tokens_file.absolute()),
    }
    settings = server_settings(config.server, given)

    def started(url: str) -> None:
        if json:
            print_json({"url": url, "dashboard": dashboard_of(url)})
        else:
            print_line("listening on ", (url, "bold"))
            print_line("dashboard:   ", (dashboard_of(url), "bold"))

    run(config, settings, started)


@tokens.command("add")
def add(
    name: Name,
    scope: Annotated[str, typer.Option("--scope", help="read, operate or upgrade.")] = "read",
    file: File = None,
    json: AsJson = False,
) -> None:
    """Create a token and print it: it cannot be shown again."""
    from tidegate.server.tokens import Scope, add_token

    token = add_token(_file(file), name, Scope.of(scope))
    if json:
        print_json({"name": name, "scope": scope, "token": token})
    else:
        print_line(token)


@tokens.command("list")
def list_tokens(file: File = None, json: AsJson = False) -> None:
    """List the names and scopes of tokens."""
    from tidegate.server.tokens import Tokens

    entries = Tokens(_file(file)).entries()
    if json:
        print_json({"tokens": [{"name": entry.name, "scope": entry.scope} for entry in entries]})
    else:
        print_table([(entry.name, entry.scope) for entry in entries], ("name", "scope"))


@tokens.command("remove")
def remove(name: Name, file: File = None, json: AsJson = False) -> None:
    """Remove a token: servers refuse it from now on."""
    from tidegate.server.tokens import remove_token

    remove_token(_file(file), name)
    if json:
        print_json({"removed": name})
    else:
        print_line(f"removed {name}")


def _file(given: Path | None) -> Path:
    if given is not None:
        if not given.name:
            raise ConfigError("bad-option", "--file names no file", "give the path of a file")
        return given
    config: Config = load_config()
    named = config.server.get("tokens", DEFAULT_FILE)
    return config.folder / str(named)
