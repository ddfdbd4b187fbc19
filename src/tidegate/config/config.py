"""Load settings: `tidegate.toml`, overridden by `TIDEGATE_*`, overridden by the caller or a flag.

    app = "orders:app"                       TIDEGATE_APP=orders:app
    log = "sqlite:///.tidegate/log.db"       TIDEGATE_LOG=sqlite://
    [kafka]
    "bootstrap.servers" = "broker:9092"      TIDEGATE_KAFKA__BOOTSTRAP_SERVERS=broker:9092
    [registry]
    url = "https://registry:8081"            TIDEGATE_REGISTRY__URL=https://registry:8081
    [upgrade]
    max_removed = 0.2                        TIDEGATE_UPGRADE__MAX_REMOVED=0.2
    [settings]
    min_cents = 100                          TIDEGATE_SETTINGS__MIN_CENTS=100

An unknown key and a value of the wrong type raise an error that names them: an ignored misspelling would be
noticed weeks later. The sections [kafka], [registry], [spark], [server], [sinks] and [settings] are passed on
as they are; their values from the environment are text.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import msgspec

from tidegate.config.upgrade import EXAMPLE as UPGRADE_EXAMPLE
from tidegate.config.upgrade import UpgradeSettings, checked_upgrade
from tidegate.errors import ConfigError

FILE = "tidegate.toml"
PREFIX = "TIDEGATE_"
SECTIONS = ("kafka", "registry", "spark", "server", "sinks", "settings")
DOTTED = ("kafka", "registry")
"""Sections whose names have dots, which a variable cannot have."""

Text = Annotated[str, msgspec.Meta(min_length=1)]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The effective settings. Their repr never shows a value that may be secret."""

    app: Text | None = None
    """The app that `tidegate run` runs: `module:name`."""
    log: Text = "sqlite:///.tidegate/log.db"
    commit_interval_ms: Annotated[int, msgspec.Meta(ge=1, le=3_600_000)] = 100
    state_dir: Text = ".tidegate/state"
    state_budget_bytes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """How many bytes an app's state may take on each host; None for no limit."""
    origin_headers: bool = False
    """Whether the records of an app's sinks carry their origin: for tracing. See docs/kafka.md."""
    upgrade: UpgradeSettings = UpgradeSettings()
    """What an app may do by itself when it starts with changed code: docs/upgrades.md."""
    partitions: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 4
    """The partition count of a created topic that declares none."""
    kafka: dict[str, Any] = {}
    registry: dict[str, Any] = {}
    """The schema registry of topics in Avro and JSON Schema."""
    spark: dict[str, Any] = {}
    server: dict[str, Any] = {}
    """Where `tidegate serve` listens, and who may use it: docs/server.md."""
    sinks: dict[str, Any] = {}
    """The databases that `tidegate sink` fills, by name: docs/sinks.md."""
    settings: dict[str, Any] = {}
    folder: Path = Path()
    """The folder of tidegate.toml, else the working folder: relative paths start here."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"Config({shown})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        shown: dict[str, Any] = {name: getattr(self, name) for name in self.__struct_fields__}
        shown["log"] = without_login(self.log)
        for section in SECTIONS:
            shown[section] = dict.fromkeys(shown[section], "***")
        return list(shown.items())


EXAMPLES = {
    "app": 'app = "orders:app"',
    "log": 'log = "sqlite:///.tidegate/log.db"',
    "commit_interval_ms": "commit_interval_ms = 100",
    "state_dir": 'state_dir = ".tidegate/state"',
    "state_budget_bytes": "state_budget_bytes = 50_000_000_000",
    "origin_headers": "origin_headers = true",
    "upgrade": UPGRADE_EXAMPLE,
    "partitions": "partitions = 4",
    "kafka": "a section [kafka] with librdkafka's own names",
    "registry": "a section [registry] with url and the names of confluent-kafka's registry client",
    "spark": "a section [spark] with master and conf",
    "server": "a section [server] with host, port and tokens",
    "sinks": "a section [sinks.NAME] with url, models and tables",
    "settings": "a section [settings] with your own names",
}
_TYPES = {field.name: field.type for field in msgspec.structs.fields(Config) if field.name in EXAMPLES}


def load_config(
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Config:
    """Load the settings for a working folder: the file found upward from it, the environment, the overrides.

    An override of None counts as not set. Raises ConfigError: `broken-config` for a file that is not valid
    TOML, `unknown-setting` and `bad-setting` with the setting's name and where it is set.
    """
    start = _working_folder(folder)
    file = next((found for at in (start, *start.parents) if (found := at / FILE).is_file()), None)
    merged: dict[str, Any] = {}
    if file is not None:
        _merge(merged, _checked(_read(file), str(file)), str(file))
    for variable, layer in _from_environment(os.environ if environ is None else environ):
        _merge(merged, _checked(layer, variable, text=True), variable)
    arguments = {name: value for name, value in (overrides or {}).items() if value is not None}
    _merge(merged, _checked(arguments, "the arguments"), "the arguments")
    if "upgrade" in merged:
        merged["upgrade"] = UpgradeSettings(**merged["upgrade"])
    return Config(**merged, folder=file.parent if file is not None else start)


def without_login(url: str) -> str:
    """Return the URL without user and password, for printing."""
    return url if url.startswith("sqlite:///") else re.sub(r"(?s)^([a-z]*://)?.*@", r"\1***@", url)


def _working_folder(folder: Path | None) -> Path:
    try:
        return (Path.cwd() if folder is None else folder).absolute()
    except FileNotFoundError:
        raise ConfigError(
            "no-folder", "the working folder no longer exists", "change to another folder"
        ) from None


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_bytes().decode())
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("broken-config", f"{file}: {error}", "correct the file at that line") from None
    except (UnicodeDecodeError, RecursionError):
        raise ConfigError("broken-config", f"{file} is not a TOML file", "write it as UTF-8 text") from None
    except OSError as error:
        raise ConfigError(
            "broken-config", f"{file} cannot be read: {error.strerror}", "check its owner and mode"
        ) from None


def _checked(layer: Mapping[str, Any], origin: str, *, text: bool = False) -> dict[str, Any]:
    """Check and convert the values of one origin; `text` allows numbers that are written as text."""
    checked: dict[str, Any] = {}
    for name, value in layer.items():
        if name not in _TYPES:
            near = get_close_matches(name, _TYPES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"use one of: {', '.join(_TYPES)}"
            raise ConfigError("unknown-setting", f"{origin}: there is no setting {name!r}", hint)
        try:
            checked[name] = (
                checked_upgrade(value, text=text)
                if name == "upgrade"
                else msgspec.convert(value, _TYPES[name], strict=not text)
            )
        except msgspec.ValidationError as error:
            found = "" if name in SECTIONS else f": {error}"
            raise _bad(origin, f"{name} cannot be used{found}", f"write {EXAMPLES[name]}") from None
        if name in SECTIONS:
            checked[name] = value
    return checked


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each variable that sets something, with what it sets.

    The environment is shared, so unknown names are ignored, unless they resemble a known setting.
    """
    for variable in sorted(environ):
        if not variable.startswith(PREFIX):
            continue
        name, *path = variable.removeprefix(PREFIX).lower().split("__")
        if name in SECTIONS or (name == "upgrade" and path):
            if not path or not all(path):
                hint = f"name the setting: {PREFIX}{name.upper()}__NAME"
                raise _bad(variable, f"{name} is a section, not a setting", hint)
            yield variable, {name: _nested(name, path, environ[variable])}
        elif name in _TYPES and not path:
            yield variable, {name: environ[variable]}
        elif near := get_close_matches(name, _TYPES, n=1, cutoff=0.85):
            hint = f"did you mean {PREFIX}{near[0].upper()}?"
            raise ConfigError("unknown-setting", f"{variable} is not a known setting", hint)


def _nested(section: str, path: list[str], value: str) -> dict[str, Any]:
    """Return the path as nested dicts; in DOTTED sections a variable's underscores become dots."""
    *outer, last = [part.replace("_", ".") for part in path] if section in DOTTED else path
    nested: dict[str, Any] = {last: value}
    for part in reversed(outer):
        nested = {part: nested}
    return nested


def _merge(into: dict[str, Any], layer: Mapping[str, Any], origin: str, path: str = "") -> None:
    """Merge one origin over the previous ones: single values replace, tables are merged."""
    for name, value in layer.items():
        here = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            below = into.get(name, {})
            if not isinstance(below, Mapping):
                raise _bad(origin, f"{here} has a value, so it cannot be a table", "set only one of the two")
            into[name] = joined = dict(below)
            _merge(joined, value, origin, here)
        else:
            into[name] = value


def _bad(origin: str, message: str, hint: str) -> ConfigError:
    return ConfigError("bad-setting", f"{origin}: {message}", hint)
