"""The source of all loaded modules of the project, parsed once per process.

Only source is in here, nothing live: so it can be shared by all fingerprints of a process, as long as no
further module is loaded.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from tidegate.fingerprint.effects import acted_on
from tidegate.fingerprint.executed import Executed, external_behind
from tidegate.fingerprint.modules import Module, Statement
from tidegate.fingerprint.names import Names
from tidegate.fingerprint.project import Project, is_own, source_of
from tidegate.fingerprint.unseen import NOT_ACTED_ON

_parsed: dict[tuple[str, int, int], tuple[ModuleType, Any, Module | None]] = {}
"""By name, module and spec, which a reload replaces; both are kept, since their addresses are keys."""
_indexes: dict[tuple[int, ...], Index] = {}


class Index:
    """Modules, names, and which statement acts on what."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._acting: dict[int, list[tuple[Statement, str]]] = {}
        self._acting_outside: dict[str, list[tuple[Statement, str]]] = {}
        """By the name of a top-level module outside of the project."""
        self._acted: set[int] = set()
        self._executed: Executed | None = None
        for module in names.modules.values():
            for statement in module.statements:
                self._find_effects(statement)

    def acting_on(self, statement: Statement) -> list[tuple[Statement, str]]:
        """Return the statements that act on one, with the name where the expression that does so begins."""
        return self._acting.get(id(statement), [])

    def is_touched(self, statement: Statement) -> bool:
        """Whether code that is executed while the project is imported mentions what the statement binds."""
        return id(statement) in self._acted or id(statement) in self.executed.touched

    def acting_outside(self, top: str) -> list[tuple[Statement, str]]:
        """Return the statements that act on a module outside of the project."""
        return [*self._acting_outside.get(top, []), *self.executed.outside.get(top, [])]

    @property
    def executed(self) -> Executed:
        if self._executed is None:
            self._executed = Executed(self.names)
        return self._executed

    def _find_effects(self, statement: Statement) -> None:
        for name, chain, root, outside in acted_on(statement.node):
            meaning = self.names.resolve(statement.module, name, chain)
            self._acted.update(map(id, meaning.statements))
            for target in meaning.statements:
                if target is not statement:
                    self._acting.setdefault(id(target), []).append((statement, root))
            for path in external_behind(self.names, statement.module, name, chain) if outside else ():
                top = path.partition(".")[0]
                if top not in NOT_ACTED_ON and not is_own(top):
                    self._acting_outside.setdefault(top, []).append((statement, root))


def index_of(project: Project) -> Index:
    """Return the index of the modules that are loaded now."""
    loaded = project.loaded()
    key = tuple(id(one) for _, module in loaded for one in (module, module.__dict__.get("__spec__")))
    if key not in _indexes:
        _indexes.clear()
        _indexes[key] = Index(Names(project, _modules(loaded)))
    return _indexes[key]


def _modules(loaded: list[tuple[str, ModuleType]]) -> dict[str, Module]:
    found: dict[str, Module] = {}
    for key, (module, _, _) in list(_parsed.items()):
        if sys.modules.get(key[0]) is not module:
            del _parsed[key]
    for name, module in loaded:
        spec = module.__dict__.get("__spec__")
        key = (name, id(module), id(spec))
        if key not in _parsed:
            source = source_of(name, module)
            _parsed[key] = module, spec, Module(source) if source is not None else None
        parsed = _parsed[key][2]
        if parsed is not None:
            found[parsed.name if parsed.name not in found else name] = parsed
    return found


@contextmanager
def without_collecting() -> Iterator[None]:
    """Suspend the search for garbage: parsing makes many objects, and all are kept. They are moved to the
    oldest generation, or else the next three searches would walk over them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if collecting:
            gc.enable()


def forget() -> None:
    """Release the parsed source, some MB for each thousand lines. The next fingerprint parses again."""
    _indexes.clear()
    _parsed.clear()
