"""A module of the project as parsed source: its top-level statements and the names that they bind."""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Iterator
from typing import Any

from tidegate.fingerprint.dump import dump
from tidegate.fingerprint.mentions import Dump, Imported
from tidegate.fingerprint.project import Source

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*FUNCTIONS, ast.Lambda, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

_GLOBAL = re.compile(r"^\s+global \w", re.MULTILINE)
"""Only modules with such a line are searched for declarations."""


class Statement:
    """One top-level statement. Imports are none: names lead through them to what they import."""

    __slots__ = ("dumped", "label", "module", "names", "node", "start")

    def __init__(self, module: Module, node: ast.stmt, names: list[str], label: str) -> None:
        self.module = module
        self.node = node
        self.names = names
        self.label = label
        decorators = getattr(node, "decorator_list", ())
        self.start = min([node.lineno, *(one.lineno for one in decorators)])
        self.dumped: Dump | None = None

    def dump(self) -> Dump:
        """Return its tokens, which are made once, with names as they are in the source."""
        if self.dumped is None:
            self.dumped = dump(self.node)
        return self.dumped

    @property
    def name(self) -> str:
        return f"{self.module.name}:{self.label}"

    @property
    def location(self) -> str:
        return f"{self.module.path}:{self.node.lineno}"


class Module:
    """A parsed module."""

    def __init__(self, source: Source) -> None:
        self.name = source.name
        self.path = source.path
        self.file = source.file
        self.text = source.text or ""
        self.compiled = source.compiled
        self.namespace = source.namespace
        self.is_package = source.is_package
        self.statements: list[Statement] = []
        self.binders: dict[str, list[Statement]] = {}
        self.imports: dict[str, list[Imported]] = {}
        self.stars: list[Imported] = []
        self.executed_imports: list[Imported] = []
        """Those of all import statements, as they are written."""
        self.late_imports: list[tuple[int, str]] = []
        """Imports after the first statement: how many statements precede each, and the name that it binds."""
        self._labels: dict[str, int] = {}
        self.is_readable = source.text is not None
        try:
            tree = ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError):
            tree, self.is_readable = ast.parse(""), False
        for node in tree.body:
            self._add(node)
        if _GLOBAL.search(self.text):
            self._find_global_declarations()
        self._starts = [one.start for one in self.statements]

    def at(self, line: int) -> Statement | None:
        """Return the statement that covers a line."""
        number = bisect.bisect_right(self._starts, line) - 1
        if number < 0:
            return None
        found = self.statements[number]
        return found if line <= (found.node.end_lineno or line) else None

    def packages(self) -> Iterator[Imported]:
        """Yield the packages around it, which are imported before it."""
        parts = self.name.split(".")
        yield from (Imported(".".join(parts[:count])) for count in range(1, len(parts)))

    def live(self, name: str) -> Any:
        """Return what a name is bound to now; `MISSING` if nothing or if the module is not loaded."""
        return MISSING if self.namespace is None else self.namespace.get(name, MISSING)

    def _add(self, node: ast.stmt) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self._add_import(node)
                return
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return
            case ast.If(test=test) if _last_name(test) == "TYPE_CHECKING":
                for one in (*node.body, *node.orelse):
                    self._add(one)
                return
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names = [name]
            case ast.Assign(targets=[ast.Name(id=name)]) if not isinstance(node.value, ast.NamedExpr):
                names = [name]
            case _:
                names = list(dict.fromkeys(_bound(node)))
        label = ",".join(names) if names else f"<{type(node).__name__.lower()}>"
        number = self._labels[label] = self._labels.get(label, 0) + 1
        statement = Statement(self, node, names, label if number == 1 else f"{label}#{number}")
        self.statements.append(statement)
        for name in names:
            self.binders.setdefault(name, []).append(statement)

    def _add_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if self.statements:
                self.late_imports.append((len(self.statements), alias.asname or alias.name))
            if isinstance(node, ast.Import):
                self.executed_imports.append(Imported(alias.name))
                bound = alias.asname or alias.name.partition(".")[0]
                target = Imported(alias.name if alias.asname else bound)
            else:
                bound = alias.asname or alias.name
                target = Imported(node.module or "", node.level, alias.name)
                self.executed_imports.append(target)
            if alias.name == "*":
                self.stars.append(target._replace(attribute=None))
                continue
            known = self.imports.setdefault(bound, [])
            if target not in known:
                known.append(target)

    def _find_global_declarations(self) -> None:
        """A function that declares a name as global binds it, too."""
        for statement in self.statements:
            if isinstance(statement.node, (*FUNCTIONS, ast.ClassDef)):
                for inner in ast.walk(statement.node):
                    if isinstance(inner, ast.Global):
                        for name in inner.names:
                            binders = self.binders.setdefault(name, [])
                            if statement not in binders:
                                binders.append(statement)


class _Missing:
    pass


MISSING = _Missing()


def _last_name(node: ast.AST) -> str:
    return str(getattr(node, "attr", None) or getattr(node, "id", ""))


def _bound(node: ast.AST) -> Iterator[str]:  # noqa: C901 - one case for each kind of statement
    """Yield the names that a statement binds in the module, in order."""
    match node:
        case ast.Name(ctx=ast.Store() | ast.Del()):
            yield node.id
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Import():
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0]
        case ast.ImportFrom():
            for alias in node.names:
                yield alias.asname or alias.name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
    if not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from _bound(child)
