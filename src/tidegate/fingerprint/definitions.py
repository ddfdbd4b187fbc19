"""Find the source of a live function."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from tidegate.fingerprint.dump import dump
from tidegate.fingerprint.graph import Piece
from tidegate.fingerprint.modules import FUNCTIONS, Module, Statement
from tidegate.fingerprint.project import Source

if TYPE_CHECKING:
    from tidegate.fingerprint.explore import Explorer

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_LITERALS = (ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.unaryop, ast.expr_context)

_CONTAINERS = {
    *("dict", "list", "set", "defaultdict", "OrderedDict", "Counter", "deque", "int"),
    *("WeakKeyDictionary", "WeakValueDictionary", "WeakSet"),
}
_NO_NAME = re.compile(r"<(locals|listcomp|setcomp|dictcomp|genexpr)>\.")
"""Parts of a qualified name that only some versions of Python have."""


class Definitions:
    """Pieces of functions by their code."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._cells: dict[str, Module | None] = {}
        self._nested: dict[tuple[int, tuple[str, ...]], Piece] = {}

    def of(self, function: FunctionType) -> tuple[list[Piece], _Function | None] | None:
        """Return the pieces that a function's source consists of, and its definition. None if the function is
        not of the project; no piece is found without source, and then the piece says so."""
        code = function.__code__
        home = self._explorer.names.holding(function.__globals__)
        if home is None:
            return None
        if not home.is_readable:
            return [self._explorer.module(home)], None
        module = home if code.co_filename == home.file else self._cell(code.co_filename, home)
        statement = None if module is None else module.at(code.co_firstlineno)
        if module is None or statement is None:
            return [self._without_source(function, home)], None
        if _first_line(statement.node) == code.co_firstlineno and _is_named(statement.node, code.co_name):
            return [self._explorer.statement(statement)], statement.node  # type: ignore[return-value]
        found = list(_found(statement.node, code))
        if isinstance(statement.node, ast.ClassDef) and _is_method(function):
            return [self._explorer.statement(statement)], found[0] if len(found) == 1 else None
        pieces = [self._piece(module, statement, one, number, function) for number, one in enumerate(found)]
        return pieces or [self._without_source(function, home)], found[0] if len(found) == 1 else None

    def _piece(
        self, module: Module, statement: Statement, node: _Function, number: int, function: FunctionType
    ) -> Piece:
        key = (id(node), function.__code__.co_freevars)
        known = self._nested.get(key)
        if known is None:
            label = _NO_NAME.sub("", function.__qualname__)
            order = [
                one
                for one in ast.walk(statement.node)
                if getattr(one, "name", "<lambda>") == function.__name__
                and isinstance(one, (*FUNCTIONS, ast.Lambda))
            ]
            position = order.index(node) + 1 if node in order else number + 1
            suffix = f"#{position}" if position > 1 else ""
            if "." not in label and statement.names:
                label = f"{statement.label}.{label}"
            known = self._nested[key] = Piece(
                f"{module.name}:{label}{suffix}",
                f"{module.path}:{node.lineno}",
                lambda piece: self._expand(piece, module, node, function.__code__.co_freevars),
            )
        return known

    def _expand(self, piece: Piece, module: Module, node: _Function, free: tuple[str, ...]) -> None:
        self._explorer.resolve(piece, module, dump(node, free))

    def _without_source(self, function: FunctionType, home: Module) -> Piece:
        """Any code of the project may have made the function."""
        piece = Piece(location=home.path)
        piece.text = f"no source {function.__qualname__}"
        piece.unseen.append(("no source", f"{home.name}.{function.__qualname__}"))
        piece.extra.append(self._explorer.everything())
        return piece

    def _cell(self, file: str, home: Module) -> Module | None:
        """Parse a cell of a notebook, or other code that Python can show lines of."""
        if file not in self._cells:
            lines = linecache.getlines(file, home.namespace)
            source = Source(
                home.name, home.path, file, "".join(lines), None, home.namespace, is_package=False
            )
            module = Module(source) if lines else None
            self._cells[file] = module if module is not None and module.statements else None
        return self._cells[file]


def is_plain(function: FunctionType, node: Any) -> bool:
    """Whether the definition shows all that a function is: no closure, attributes or computed defaults."""
    if function.__dict__ or set(function.__code__.co_freevars) - {"__class__"}:
        return False
    sources = [one for one in (*node.args.defaults, *node.args.kw_defaults) if one is not None]
    count = len(function.__defaults__ or ()) + len(function.__kwdefaults__ or {})
    if len(sources) != count or not all(is_literal(one) for one in sources):
        return False
    keywords, given = (
        zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
        function.__kwdefaults__ or {},
    )
    values = [*(function.__defaults__ or ()), *(given.get(one.arg) for one, source in keywords if source)]
    return all(map(_is_as_written, sources, values))


def _is_as_written(source: ast.expr, value: Any) -> bool:
    """Whether a default is what its source shows. The content of containers may change with each call."""
    if isinstance(source, (ast.List, ast.Dict, ast.Set)):
        return isinstance(value, (list, dict, set))
    with suppress(ValueError):
        return ascii(ast.literal_eval(source)) == ascii(value)
    return False


def is_literal(node: ast.expr | None) -> bool:
    return node is not None and all(isinstance(one, _LITERALS) for one in ast.walk(node))


def is_literal_container(node: ast.expr | None) -> bool:
    return (isinstance(node, (ast.List, ast.Set, ast.Dict)) and is_literal(node)) or _is_empty_call(node)


def _is_empty_call(node: ast.expr | None) -> bool:
    """`dict()`, `defaultdict(list)`, `collections.deque(maxlen=3)`"""
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
    given = [*node.args, *(one.value for one in node.keywords)]
    return name in _CONTAINERS and all(
        is_literal(one) or getattr(one, "id", "") in _CONTAINERS for one in given
    )


def _is_method(function: FunctionType) -> bool:
    return "<locals>" not in function.__qualname__ and function.__name__ != "<lambda>"


def _first_line(node: Any) -> int:
    first: int = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
    return first


def _is_named(node: ast.AST, name: str) -> bool:
    return isinstance(node, FUNCTIONS) and node.name == name


def around_line(node: ast.AST, line: int) -> Iterator[ast.AST]:
    """Yield a node and those inside of it that cover a line."""
    yield node
    for child in ast.iter_child_nodes(node):
        first = getattr(child, "lineno", line)
        if getattr(child, "decorator_list", None):
            first = _first_line(child)
        if first <= line <= (getattr(child, "end_lineno", None) or line):
            yield from around_line(child, line)


def _found(statement: ast.AST, code: CodeType) -> Iterator[_Function]:
    """Yield the definitions inside of a statement that a function may have been compiled from. Lambdas may
    share a line: the columns of the instructions show which one it is; of nested ones it is the innermost."""
    if code.co_name != "<lambda>":
        for node in around_line(statement, code.co_firstlineno):
            if _is_named(node, code.co_name) and _first_line(node) == code.co_firstlineno:
                yield node  # type: ignore[misc]
        return
    lambdas = [
        node
        for node in around_line(statement, code.co_firstlineno)
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
    ]
    spans = list(_spans(code))
    around = [node for node in lambdas if _covers(node.body, spans)]
    if around:
        yield max(around, key=lambda node: (node.lineno, node.col_offset))
    else:
        yield from lambdas


def _spans(code: CodeType) -> Iterator[tuple[int, int, int, int]]:
    """Yield line, column, last line and last column of the instructions that come from source text."""
    for line, last_line, column, last_column in code.co_positions():
        if line is None or last_line is None or column is None or last_column is None:
            continue
        if (column, last_column) != (0, 0):  # (0, 0) is the first instruction of every function
            yield line, column, last_line, last_column


def _covers(node: ast.expr, spans: list[tuple[int, int, int, int]]) -> bool:
    start, end = (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)
    return bool(spans) and all(
        start <= (line, column) and (last_line, last_column) <= end
        for line, column, last_line, last_column in spans
    )
