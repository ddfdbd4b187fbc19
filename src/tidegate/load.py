"""Load an app by `module:name`, with its settings."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping
from typing import Any, get_type_hints

from tidegate.app import App
from tidegate.config.importing import importing
from tidegate.errors import ConfigError
from tidegate.settings import Settings
from tidegate.text.user_code_location import user_code_location


def load_app(name: str, settings: Mapping[str, Any] | None = None) -> App:
    """Load the app of this name: an App, or what a function () or (Settings) returns.

    Raises ConfigError: `no-such-app` if it cannot be imported, `not-an-app` if it is something else.
    """
    module_name, found, attribute = name.partition(":")
    if not found or not module_name or not attribute:
        raise ConfigError(
            "no-such-app", f"{name!r} is not the name of an app", "write module:name, such as orders:app"
        )
    module = _imported(module_name)
    try:
        target = getattr(module, attribute)
    except AttributeError:
        raise ConfigError(
            "no-such-app", f"module {module_name!r} has no {attribute!r}", "define it, or name another app"
        ) from None
    app = target if isinstance(target, App) else _called(name, target, settings or {})
    if not isinstance(app, App):
        raise _not_an_app(name, f"is a {type(app).__name__}")
    return app


def _imported(name: str) -> Any:
    try:
        with importing():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        where = "" if missing == name else f", which {name!r} imports"
        raise ConfigError(
            "no-such-app",
            f"there is no module {missing!r}{where}",
            "start tidegate where it can be imported, or install it",
        ) from error
    except Exception as error:
        location = user_code_location(error)
        raise ConfigError(
            "broken-app",
            f"module {name!r} cannot be imported: {type(error).__name__}: {error}"
            + (f" at {location}" if location else ""),
            "fix the error; python -c 'import ...' raises the same",
        ) from error


def _called(name: str, target: Any, settings: Mapping[str, Any]) -> Any:
    if not callable(target) or isinstance(target, type):
        raise _not_an_app(name, f"is a {type(target).__name__}")
    parameters = list(inspect.signature(target).parameters.values())
    if not parameters:
        return target()
    if len(parameters) > 1:
        raise _not_an_app(name, f"takes {len(parameters)} parameters")
    hints = get_type_hints(target, vars(sys.modules[target.__module__]))
    kind = hints.get(parameters[0].name)
    if not isinstance(kind, type) or not issubclass(kind, Settings):
        raise _not_an_app(name, f"takes {parameters[0].name!r}, which is not a Settings class")
    values = kind.of(settings)
    app = target(values)
    if isinstance(app, App):
        app.attach(values)
    return app


def _not_an_app(name: str, what: str) -> ConfigError:
    return ConfigError(
        "not-an-app", f"{name!r} {what}", "it must be an App, or a function () or (Settings) that returns one"
    )
