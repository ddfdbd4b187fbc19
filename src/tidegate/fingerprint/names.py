"""Find what a name of a module stands for, through any number of imports."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from tidegate.fingerprint.mentions import Imported, Mention
from tidegate.fingerprint.modules import Module, Statement
from tidegate.fingerprint.project import Project, import_root

_DEEPEST = 40
"""Imports that lead from one to the next; more are a circle."""


@dataclass(slots=True)
class Meaning:
    """What a name with its attributes stands for. Several at once if it is bound several times."""

    statements: list[Statement] = field(default_factory=list)
    modules: list[Module] = field(default_factory=list)
    external: list[str] = field(default_factory=list)
    """Dotted names outside of the project."""
    holders: list[tuple[Module, str]] = field(default_factory=list)
    """Modules with the name under which they hold the live object."""
    importers: list[tuple[Module, str]] = field(default_factory=list)
    """Modules that imported it from there, with the name that they bound it to."""
    used: int = 0
    """How many attributes of the chain belong to it."""

    def add(self, other: Meaning) -> None:
        self.statements += [one for one in other.statements if one not in self.statements]
        self.modules += [one for one in other.modules if one not in self.modules]
        self.external += [one for one in other.external if one not in self.external]
        self.holders += [one for one in other.holders if one not in self.holders]

    @property
    def is_known(self) -> bool:
        return bool(self.statements or self.modules or self.external or self.holders)


class Names:
    """All modules of the project by name."""

    def __init__(self, project: Project, modules: dict[str, Module]) -> None:
        self._project = project
        self.modules = modules
        self._unloaded: dict[str, Module | None] = {}
        self._by_namespace = {id(one.namespace): one for one in modules.values() if one.namespace is not None}
        self._prefixes = {
            ".".join(parts[:count])
            for parts in (name.split(".") for name in self.modules)
            for count in range(1, len(parts))
        }

        self.folders = {import_root(one.file, one.path) for one in modules.values()}
        """Those that the modules were imported from."""

    def holding(self, namespace: dict[str, Any] | None) -> Module | None:
        """Return the module with these globals."""
        return None if namespace is None else self._by_namespace.get(id(namespace))

    def module(self, name: str) -> Module | None:
        """Return a module of the project; one that is not loaded is parsed and not executed."""
        found = self.modules.get(name)
        if found is not None or name in self._prefixes:
            return found
        if name in sys.modules and not _is_replaced(name):
            return None
        if name not in self._unloaded:
            source = self._project.unloaded(name)
            self._unloaded[name] = Module(source) if source is not None else None
        return self._unloaded[name]

    def meaning(self, module: Module, mention: Mention) -> Meaning:
        """Return what a mention in a module stands for."""
        if mention.imported is not None:
            return self.follow(module, mention.imported, mention.chain)
        return self.resolve(module, mention.name, mention.chain)

    def resolve(self, module: Module, name: str, chain: tuple[str, ...] = (), depth: int = 0) -> Meaning:
        """Return what a global name of a module stands for; an empty meaning if no source binds it."""
        statements = module.binders.get(name, [])
        imports = module.imports.get(name, [])
        if depth > _DEEPEST:
            return Meaning()
        if statements and not imports:
            return Meaning(statements=list(statements), holders=[(module, name)])
        if len(imports) == 1 and not statements:
            return self.follow(module, imports[0], chain, depth + 1, name)
        meaning = Meaning()
        if statements or imports:
            meaning.statements += statements
            meaning.holders.append((module, name))
            for one in imports:
                meaning.add(self.follow(module, one, (), depth + 1))
            return meaning
        for star in module.stars:
            target = self.module(_absolute(module, star))
            if target is not None:
                meaning.add(self.resolve(target, name, (), depth + 1))
        meaning.statements += [one for one in module.binders.get("*", []) if one not in meaning.statements]
        if meaning.is_known and (module, name) not in meaning.holders:
            meaning.holders.insert(0, (module, name))
        return meaning

    def follow(
        self, module: Module, imported: Imported, chain: tuple[str, ...], depth: int = 0, bound: str = ""
    ) -> Meaning:
        """Return what an import binds. With the name that it binds, a live object there that is another one
        than that of the imported module counts as well."""
        absolute = _absolute(module, imported)
        if imported.attribute is None:
            return self._module(absolute, chain, depth)
        target = self.module(absolute)
        if target is None:
            inner = f"{absolute}.{imported.attribute}"
            if self.module(inner) is not None or inner in self._prefixes:
                return self._module(inner, chain, depth)
            return Meaning(external=[inner])
        meaning = self._attribute(target, imported.attribute, chain, depth)
        if bound and meaning.statements and len(meaning.holders) == 1 and not meaning.used:
            meaning.importers.append((module, bound))
        return meaning

    def home(self, module: Module, imported: Imported) -> Module | None:
        """Return the module of the project that an import statement executes."""
        absolute = _absolute(module, imported)
        inner = self.module(f"{absolute}.{imported.attribute}") if imported.attribute else None
        return inner or self.module(absolute)

    def outside(self, module: Module, imported: Imported) -> str:
        """Return the dotted name of what an import statement looks for outside of the project; empty if the
        project has it. A name that no module of the project binds is outside as well: the import fails."""
        absolute, attribute = _absolute(module, imported), imported.attribute
        home = self.home(module, imported)
        if home is not None:
            if attribute is None or attribute == "*" or home.name != absolute:
                return ""
            if "__getattr__" in home.binders or self.resolve(home, attribute).is_known:
                return ""
        return f"{absolute}.{attribute}" if attribute else absolute

    def _module(self, name: str, chain: tuple[str, ...], depth: int) -> Meaning:
        used = 0
        while (found := self.module(name)) is None:
            if name not in self._prefixes or used >= len(chain):
                return Meaning(external=[name], used=used)
            name = f"{name}.{chain[used]}"
            used += 1
        if used < len(chain):
            meaning = self._attribute(found, chain[used], chain[used + 1 :], depth + 1)
            if meaning.is_known:
                meaning.used += used + 1
                return meaning
        return Meaning(modules=[found], used=used)

    def _attribute(self, module: Module, name: str, chain: tuple[str, ...], depth: int) -> Meaning:
        meaning = self.resolve(module, name, chain, depth + 1)
        if meaning.is_known:
            return meaning
        inner = f"{module.name}.{name}"
        if inner in self._prefixes or self.module(inner) is not None:
            return self._module(inner, chain, depth + 1)
        if "__getattr__" in module.binders:
            return Meaning(statements=list(module.binders["__getattr__"]), holders=[(module, name)])
        return Meaning(modules=[module], holders=[(module, name)])


def _is_replaced(name: str) -> bool:
    """Whether a module put another object in its place: its source says what that does."""
    loaded = sys.modules[name]
    return not isinstance(loaded, ModuleType) or loaded.__dict__.get("__spec__") is None


def _absolute(module: Module, imported: Imported) -> str:
    if not imported.level:
        return imported.module
    parts = module.name.split(".")
    kept = len(parts) - imported.level + (1 if module.is_package else 0)
    return ".".join([*parts[: max(kept, 0)], *([imported.module] if imported.module else [])])
