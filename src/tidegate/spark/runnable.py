"""An app that can be run, and the name under which executors import it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Protocol

from tidegate.errors import ConfigError
from tidegate.topology.graph import Topology


class RunnableApp(Protocol):
    """The part of an `App` that a run uses; `App` imports this module when it is started."""

    @property
    def id(self) -> str: ...

    def build(self) -> Topology: ...


def name_of(app: RunnableApp) -> str:
    """Find `module:name` of the app, under which executors import it. A script is imported by the name of its
    file."""
    for module_name, module in list(sys.modules.items()):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is not app:
                continue
            found = _name_of_script(module) if module_name == "__main__" else module_name
            if found is not None:
                return f"{found}:{attribute}"
    raise ConfigError(
        "no-such-app",
        f"app {app.id!r} is in no module that executors can import",
        'put it into a module, or name it: start(spark, name="orders:app")',
    )


def _name_of_script(main: ModuleType) -> str | None:
    """Return the name under which `__main__` can be imported: for `python -m shop.app` that of the module,
    for `python shop.py` that of the file. None if no such module is found, as in a notebook."""
    if main.__spec__ is not None:
        return main.__spec__.name
    file = getattr(main, "__file__", None)
    if file is None:
        return None
    name = Path(file).stem
    spec = importlib.util.find_spec(name)
    same = (
        spec is not None and spec.origin is not None and Path(spec.origin).resolve() == Path(file).resolve()
    )
    return name if same else None
