"""Which modules are the user's project, and where their source comes from.

The project is every loaded module that is neither of the standard library, nor installed below
`site-packages` or `dist-packages`, nor tidegate itself. Source is read through the module's loader, so that a
module in a zip file or on another path than the working folder is read as well.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import operator
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any, NamedTuple

_OWN = __name__.partition(".")[0]
_INSTALLED = ("site-packages", "dist-packages")
_STANDARD = tuple(
    {str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib")}
    | {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
)


class Source(NamedTuple):
    """A module as it was found."""

    name: str
    """What it is imported as; of `__main__` its real name, if it has one."""
    path: str
    """`shop/prices.py`: below the import root."""
    file: str
    """As in its functions' code."""
    text: str | None
    compiled: bytes | None
    """The bytes of its file, if there is no text."""
    namespace: dict[str, Any] | None
    """None if it is not loaded."""
    is_package: bool


class Project:
    """Finds modules. `packages` belong to the project although they are installed like a library."""

    def __init__(self, packages: Iterable[str] = ()) -> None:
        self.packages = {name.partition(".")[0] for name in packages}

    def loaded(self) -> list[tuple[str, ModuleType]]:
        """Return the loaded modules of the project, by name."""
        names, modules = zip(*sys.modules.copy().items(), strict=True)
        packages = frozenset(self.packages)
        known = _known.get(packages)
        if known is None or not known.holds(names, modules):
            _known.clear()
            known = _known[packages] = _Loaded(names, modules, list(self._found()))
        return known.found

    def _found(self) -> Iterator[tuple[str, ModuleType]]:
        for name, module in sorted(sys.modules.items()):
            if not isinstance(module, ModuleType) or (name == "__main__" and _has_namesake(module)):
                continue
            if self.owns(_shown(name, module), _file(module)):
                yield name, module

    def owns(self, name: str, file: str) -> bool:
        """Whether a module belongs to the project, by its name and file."""
        top = name.partition(".")[0]
        if top == _OWN or not file:
            return name == "__main__"  # of a notebook
        return top in self.packages or not _is_library(file)

    def unloaded(self, name: str) -> Source | None:
        """Find a module of the project that was never imported, without executing anything."""
        top, *inner = name.split(".")
        if top == _OWN or top in sys.builtin_module_names or top in sys.stdlib_module_names:
            return None
        try:
            replaced = top in sys.modules and getattr(sys.modules[top], "__spec__", None) is None
            finder: Any = importlib.machinery.PathFinder if replaced else importlib.util
            spec = finder.find_spec(top)
            path = top
            for part in inner:
                if spec is None or spec.submodule_search_locations is None:
                    return None
                path = f"{path}.{part}"
                spec = importlib.machinery.PathFinder.find_spec(path, list(spec.submodule_search_locations))
        except (ImportError, ValueError, AttributeError):
            return None
        if spec is None or not spec.origin or not self.owns(name, spec.origin):
            return None
        return _read(name, spec.loader, spec.origin, None, spec.submodule_search_locations is not None)


class _Loaded(NamedTuple):
    """The loaded modules of the process, and those of them that are the project's. A process may have
    thousands, and an app is looked at each time it starts."""

    names: tuple[str, ...]
    modules: tuple[Any, ...]
    found: list[tuple[str, ModuleType]]

    def holds(self, names: tuple[str, ...], modules: tuple[Any, ...]) -> bool:
        """Whether no module was loaded, removed or replaced."""
        return self.names == names and all(map(operator.is_, self.modules, modules))


_known: dict[frozenset[str], _Loaded] = {}


def is_standard(name: str) -> bool:
    """Whether a module is of the standard library, by its name."""
    top = name.partition(".")[0]
    return top in sys.stdlib_module_names or top in sys.builtin_module_names


def is_own(name: str) -> bool:
    """Whether a module is part of tidegate."""
    return name.partition(".")[0] == _OWN


def is_own_object(value: Any) -> bool:
    """Whether it is an object, class, function or module of tidegate."""
    if isinstance(value, ModuleType):
        return is_own(value.__name__)
    if isinstance(value, type) or callable(value):
        own = getattr(value, "__module__", None)
        if isinstance(own, str) and is_own(own):
            return True
    return is_own(type(value).__module__)


@functools.cache
def _is_library(file: str) -> bool:
    """Whether a file is installed, or of the standard library."""
    if file in ("built-in", "frozen") or file.startswith(tuple(one + "/" for one in _STANDARD)):
        return True
    return any(part in _INSTALLED for part in PurePath(file).parts)


def _file(module: ModuleType) -> str:
    """Return the file of a module. It is called for all that are loaded, at each start of an app."""
    try:
        file = module.__dict__.get("__file__") or getattr(module.__dict__.get("__spec__"), "origin", None)
    except Exception:  # noqa: BLE001 - a module may be any object
        return ""
    return file if isinstance(file, str) else ""


def _shown(name: str, module: ModuleType) -> str:
    """Return the name of a module; for `__main__` the one under which it could be imported."""
    if name != "__main__" or not _file(module):
        return name
    shown: str = getattr(module.__dict__.get("__spec__"), "name", None) or PurePath(_file(module)).stem
    return shown.removesuffix(".__main__")


def _has_namesake(main: ModuleType) -> bool:
    """Whether another module has the name of the program that was started: a command such as `bin/tidegate`
    is no part of the project, and must not be taken for the package of its name."""
    other = sys.modules.get(_shown("__main__", main))
    return other is not None and other is not main and _file(other) != _file(main)


def source_of(name: str, module: ModuleType) -> Source | None:
    """Read the source of a loaded module; None if there is neither text nor a file."""
    namespace = module.__dict__
    loader = namespace.get("__loader__") or getattr(namespace.get("__spec__"), "loader", None)
    if name == "__main__" and not _file(module):
        return Source(name, "notebook", "", "", None, namespace, is_package=False)
    return _read(_shown(name, module), loader, _file(module), namespace, "__path__" in namespace, asked=name)


def _read(
    name: str,
    loader: Any,
    file: str,
    namespace: dict[str, Any] | None,
    is_package: bool,
    asked: str | None = None,
) -> Source | None:
    text: str | None = None
    data: bytes | None = None
    with suppress(Exception):
        text = loader.get_source(asked or name)
    if text is None and file.endswith(".py"):
        with suppress(Exception):
            text = importlib.util.decode_source(loader.get_data(file))
    if text is None:
        with suppress(Exception):
            data = loader.get_data(file)
    if text is None and data is None:
        return None
    suffix = "/__init__.py" if is_package else ".py"
    if text is None:
        suffix = PurePath(file).suffix
    return Source(name, name.replace(".", "/") + suffix, file, text, data, namespace, is_package)


def import_root(file: str, path: str) -> str:
    """Return the folder that a module was imported from; empty if it cannot be known."""
    if file.endswith(path):
        return file[: -len(path)].rstrip("/")
    return str(PurePath(file).parent) if file else ""
