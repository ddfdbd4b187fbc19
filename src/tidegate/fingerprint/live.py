"""Follow live objects: functions with closures and defaults, classes with attributes that were set later, and
what the names of modules are bound to now.

A name can be bound to something else than its statement says: by a decorator, a monkeypatch, or a factory. So
each name that is reached is compared with its statement, and another object is followed as well.
"""

from __future__ import annotations

import abc
import ast
import collections
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tidegate.fingerprint.attributes import WRAPPERS, attributes_of
from tidegate.fingerprint.definitions import (
    Definitions,
    around_line,
    is_literal,
    is_literal_container,
    is_plain,
)
from tidegate.fingerprint.graph import Piece
from tidegate.fingerprint.logic import logic_of
from tidegate.fingerprint.made import declaration_of, is_made_by_types, names_in_quotes
from tidegate.fingerprint.modules import FUNCTIONS, MISSING, Module, Statement
from tidegate.fingerprint.project import is_own, is_standard
from tidegate.fingerprint.values import Showing

if TYPE_CHECKING:
    from tidegate.fingerprint.explore import Explorer

_MUTABLE = (
    list,
    dict,
    set,
    collections.deque,
    weakref.WeakKeyDictionary,
    weakref.WeakValueDictionary,
    weakref.WeakSet,
)
_FOLLOWED = (str, bytes, int, float, tuple, list, dict, frozenset, type(None))
"""Data that a function of a library may hold for a function of the project."""


class Live:
    """Pieces of live objects, each made once."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._definitions = Definitions(explorer)
        self._pieces: dict[tuple[int, str], Piece] = {}
        self._kept: list[Any] = []
        """Objects whose address is a key."""

    @property
    def roots(self) -> tuple[str, ...]:
        return self._explorer.roots

    # --- names ------------------------------------------------------------------------------------------

    def bound(self, piece: Piece, statement: Statement) -> None:
        """Add the live objects of the names that a statement binds, unless the statement explains them."""
        for name in statement.names:
            value = statement.module.live(name)
            if value is MISSING or isinstance(value, types.ModuleType):
                found = self.project_module(value) if isinstance(value, types.ModuleType) else None
                if found is not None and isinstance(statement.node, (*FUNCTIONS, ast.ClassDef)):
                    piece.extra.append(found)
                continue
            piece.settled = piece.settled or logic_of(value) is not None
            if isinstance(statement.node, FUNCTIONS) and self._explains(statement, value):
                continue
            if isinstance(statement.node, ast.ClassDef) and isinstance(value, type):
                found = self.project_class(value)
                if found is not None:
                    piece.ordered.append(found)
                    continue
            piece.state = piece.state or isinstance(value, _MUTABLE) or self._is_object(value)
            if self._is_state(statement, name, value):
                continue
            piece.values[name] = self._showing(piece).digest(value)

    def name(self, module: Module, name: str) -> Piece:
        """What a name of a module is bound to now, whatever statement did it."""
        key = (id(module), name)
        known = self._pieces.get(key)
        if known is None:
            known = self._pieces[key] = Piece(expand=lambda piece: self._expand_name(piece, module, name))
        return known

    def _expand_name(self, piece: Piece, module: Module, name: str) -> None:
        piece.text = "live name"
        piece.label = lambda name: f"constant {module.name}.{name}"
        value = module.live(name)
        binders = module.binders.get(name, [])
        if value is MISSING:
            piece.text = "missing name"
        elif (
            callable(value)
            or not binders
            or any(self._explorer.is_touched(one) for one in binders)
            or (any(name in one.names for one in binders) and not _is_declared_global(binders, name))
        ):
            piece.values[name] = self._showing(piece).digest(value)
            piece.guard = lambda _: any(self._explorer.is_volatile(one) for one in binders)

    def _explains(self, statement: Statement, value: Any) -> bool:
        """Whether a function is just what the statement defines: no wrapper, closure or computed default."""
        if not isinstance(value, types.FunctionType) or value.__code__.co_filename != statement.module.file:
            return False
        line = value.__code__.co_firstlineno
        declared = logic_of(value)
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        if any(isinstance(one, _MUTABLE) for one in defaults) and self._explorer.is_touched(statement):
            return False
        if declared is not None or not statement.start <= line <= (statement.node.end_lineno or line):
            return False
        return line == statement.start and is_plain(value, statement.node)

    def _is_object(self, value: Any) -> bool:
        return not isinstance(value, type) and self.project_class(type(value)) is not None

    def _is_state(self, statement: Statement, name: str, value: Any) -> bool:
        """Whether it is a container or a global variable that starts with constants, and that nothing changes
        at import: a cache, or a client that is made at its first use, which is no part of the logic."""
        source = getattr(statement.node, "value", None)
        if isinstance(value, _MUTABLE) and is_literal_container(source):
            return not self._explorer.is_touched(statement)
        binders = statement.module.binders[name]
        if is_literal(source) and _is_declared_global(binders, name):
            return not any(self._explorer.is_touched(one) for one in binders)
        return False

    def _showing(self, piece: Piece) -> Showing:
        return Showing(self, piece)

    # --- functions --------------------------------------------------------------------------------------

    def function(self, function: types.FunctionType) -> Piece:
        key = (id(function), "")
        known = self._pieces.get(key)
        if known is None:
            self._kept.append(function)
            known = self._pieces[key] = Piece(expand=lambda piece: self._expand_function(piece, function))
        return known

    def _expand_function(self, piece: Piece, function: types.FunctionType) -> None:
        piece.text = "function"
        showing = self._showing(piece)
        found = self._definitions.of(function)
        if found is None:
            self._outside_function(piece, function)
            return
        pieces, node = found
        piece.location = pieces[0].location if pieces else ""
        owner = pieces[0].name if pieces else function.__qualname__
        piece.label = lambda label: f"{label} of {owner}"
        piece.ordered += pieces
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:
                piece.values[f"closure {name}"] = "empty"
                continue
            piece.values[f"closure {name}"] = showing.digest(content)
        sources: dict[str, ast.AST] = {}
        home = self._explorer.names.holding(function.__globals__)
        statement = None if home is None else home.at(function.__code__.co_firstlineno)
        is_touched = statement is not None and self._explorer.is_touched(statement)
        for name, value, default in _defaults(function, node):
            if default is not None:
                sources[f"default {name}"] = default
            if is_touched or not (isinstance(value, _MUTABLE) and is_literal_container(default)):
                piece.values[f"default {name}"] = showing.digest(value)
        for name, value in sorted(function.__dict__.items()):
            if not name.startswith("__tidegate"):
                piece.values[f"attribute {name}"] = showing.digest(value)
        self._declared(piece, function)
        if home is not None:
            piece.guard = self._guard(home, sources)

    def _guard(self, module: Module, sources: dict[str, ast.AST]) -> Callable[[str], bool]:
        """Leave out values whose source calls the clock, the environment and so on."""
        return lambda label: (
            label in sources and self._explorer.is_volatile_expression(module, sources[label])
        )

    def _declared(self, piece: Piece, target: Any) -> None:
        declared = logic_of(target)
        if declared is None:
            return
        piece.settled = True
        piece.values["version"] = declared.version
        for name, content in declared.files.items():
            piece.values[f"file {name}"] = content

    def _outside_function(self, piece: Piece, function: types.FunctionType) -> None:
        """A function of a library: its version counts. Functions of the project inside are followed."""
        module = function.__module__ or ""
        piece.text = f"outside {module}.{function.__qualname__}"
        showing = self._showing(piece)
        if module and not is_standard(module) and not is_own(module):
            piece.packages.add(module)
        registry: Any = getattr(function, "registry", None)
        if isinstance(registry, types.MappingProxyType):  # of singledispatch
            piece.values["registry"] = showing.digest(set(registry.items()))
        for name in ("__wrapped__", "func"):
            if name in function.__dict__:
                piece.values[name] = showing.digest(function.__dict__[name])
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:
                continue
            if callable(content) or isinstance(content, _FOLLOWED):
                piece.values[f"holds {name}"] = showing.digest(content)

    # --- classes ----------------------------------------------------------------------------------------

    def project_class(self, kind: type) -> Piece | None:
        namespace = getattr(sys.modules.get(kind.__module__), "__dict__", None)
        module = self._explorer.names.holding(namespace)
        if module is None and not is_made_by_types(kind):
            return None
        key = (id(kind), "")
        known = self._pieces.get(key)
        if known is None:
            self._kept.append(kind)
            known = self._pieces[key] = Piece(
                expand=lambda piece: (
                    self._expand_made(piece, kind)
                    if module is None
                    else self._expand_class(piece, kind, module)
                )
            )
        return known

    def project_module(self, module: types.ModuleType) -> Piece | None:
        found = self._explorer.names.holding(module.__dict__)
        return None if found is None else self._explorer.module(found)

    def _expand_class(self, piece: Piece, kind: type, module: Module) -> None:
        piece.text = f"class {kind.__qualname__}"
        top = kind.__qualname__.partition(".")[0]
        piece.label = lambda label: f"{label} of {module.name}:{kind.__qualname__}"
        statements = module.binders.get(top, [])
        piece.extra += [self._explorer.statement(one) for one in statements]
        if not statements:
            if module.imports.get(top) is None and not module.is_readable:
                piece.ordered.append(self._explorer.module(module))
            else:
                piece.location = module.path
                piece.unseen.append(("no source", f"{module.name}.{kind.__qualname__}"))
        showing = self._showing(piece)
        piece.text += showing.text([*kind.__mro__[1:], type(kind)])
        self._declared(piece, kind)
        if isinstance(kind, abc.ABCMeta):
            piece.values["registered"] = showing.digest(_registered(kind))
        node = _class_node(statements, kind.__qualname__)
        if node is None:
            self._made(piece, showing, kind, module)
        piece.guard = self._guard(module, _attribute_sources(node))
        is_touched = any(self._explorer.is_touched(one) for one in statements)
        for name, value in attributes_of(kind, self._is_generated):
            is_container = isinstance(value, _MUTABLE)
            if (is_container and is_touched) or not self._explains_attribute(module, node, name, value):
                piece.values[f"attribute {name}"] = showing.digest(value)

    def _made(self, piece: Piece, showing: Showing, kind: type, module: Module | None) -> None:
        """Show what a call made a class of: its fields with their types, and options."""
        for name, value in declaration_of(kind).items():
            piece.values[f"declared {name}"] = showing.digest(value)
        for name in names_in_quotes(kind):
            found = [] if module is None else self._explorer.names.resolve(module, name).statements
            piece.extra += map(self._explorer.statement, found)

    def _expand_made(self, piece: Piece, kind: type) -> None:
        showing = self._showing(piece)
        piece.text = f"class {kind.__qualname__}" + showing.text([*kind.__mro__[1:], type(kind)])
        self._made(piece, showing, kind, None)
        for name, value in attributes_of(kind, self._is_generated):
            piece.values[f"attribute {name}"] = showing.digest(value)

    def _is_generated(self, name: str, function: types.FunctionType) -> bool:
        """Whether a library made the function: the methods of a dataclass, of an enum, of a named tuple."""
        if function.__code__.co_filename.startswith("<"):
            return True
        return name.startswith("_") and self._explorer.names.holding(function.__globals__) is None

    def _explains_attribute(self, module: Module, node: ast.ClassDef | None, name: str, value: Any) -> bool:
        """Whether the body of the class shows already what the attribute is."""
        if node is None:
            return False
        inner = value.__func__ if isinstance(value, WRAPPERS) else value
        parts: list[Any] = [inner]
        if isinstance(inner, property):
            parts = [one for one in (inner.fget, inner.fset, inner.fdel) if one is not None]
        if all(isinstance(one, types.FunctionType) for one in parts):
            return all(self._is_inside(module, node, one) for one in parts)
        for one in node.body:
            target = one.targets[0] if isinstance(one, ast.Assign) else getattr(one, "target", None)
            if getattr(target, "id", None) == name and isinstance(value, _MUTABLE):
                return is_literal_container(getattr(one, "value", None)) and not _holds_code(value)
        return False

    @staticmethod
    def _is_inside(module: Module, node: ast.ClassDef, function: types.FunctionType) -> bool:
        code = function.__code__
        within = node.lineno <= code.co_firstlineno <= (node.end_lineno or 0)
        names = set(code.co_freevars) - {"__class__"}
        if code.co_filename != module.file or not within or names or function.__dict__:
            return False
        for one in around_line(node, code.co_firstlineno):
            if isinstance(one, FUNCTIONS) and one.name == code.co_name:
                first = min([one.lineno, *(each.lineno for each in one.decorator_list)])
                if first == code.co_firstlineno:
                    return is_plain(function, one)
        return False


def _class_node(statements: list[Statement], qualname: str) -> ast.ClassDef | None:
    """Return the definition of a class that is not inside of a function."""
    nodes = [one.node for one in statements if isinstance(one.node, ast.ClassDef)]
    if len(nodes) != 1 or len(statements) != 1:
        return None
    node = nodes[0]
    for part in qualname.split(".")[1:]:
        inner = [one for one in node.body if isinstance(one, ast.ClassDef) and one.name == part]
        if len(inner) != 1:
            return None
        node = inner[0]
    return node


def _registered(kind: abc.ABCMeta) -> set[type]:
    """Return the classes that `register` made subclasses of an abstract class."""
    found: Any = getattr(abc, "_get_dump", lambda _: [()])(kind)
    return {one for one in (reference() for reference in found[0]) if one is not None}


def _attribute_sources(node: ast.ClassDef | None) -> dict[str, ast.AST]:
    """Return the source of each attribute that the body of a class assigns."""
    found: dict[str, ast.AST] = {}
    for one in node.body if node is not None else ():
        targets = one.targets if isinstance(one, ast.Assign) else [getattr(one, "target", None)]
        value = getattr(one, "value", None)
        if isinstance(value, ast.AST):
            found.update(
                {f"attribute {target.id}": value for target in targets if isinstance(target, ast.Name)}
            )
    return found


def _defaults(function: types.FunctionType, node: Any) -> Iterator[tuple[str, Any, ast.expr | None]]:
    """Yield the name, value and source of each default."""
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount][code.co_argcount - len(values) :]
    sources: list[ast.expr | None] = list(node.args.defaults) if node is not None else []
    if len(sources) != len(values):
        sources = [None] * len(values)
    yield from zip(names, values, sources, strict=True)
    keyword_sources = {}
    if node is not None:
        keyword_sources = {
            one.arg: source for one, source in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        }
    for name, value in sorted((function.__kwdefaults__ or {}).items()):
        yield name, value, keyword_sources.get(name)


def _holds_code(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value
    return any(callable(one) for one in inner)


def _is_declared_global(binders: list[Statement], name: str) -> bool:
    """Whether a function assigns the name: a counter or a client that is made at its first use."""
    return any(name not in one.names for one in binders)
