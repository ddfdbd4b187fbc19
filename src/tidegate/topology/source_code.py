"""Compute a digest of a function's own source, to notice at the next start that it was changed.

The source is parsed; comments, docstrings and line numbers do not count. Only the function itself is
digested: not what it calls, closes over or reads from its module, and not the arguments of a partial. If no
source can be found, as for functions of a C library, the name is digested, or there is no digest."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import linecache
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, MethodType
from typing import Any, TypeVar

DIGEST_CHARACTERS = 16
T = TypeVar("T")
_Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Code:
    """The source of one function or class."""

    name: str
    location: str
    """`shop.py:41`; empty if there is no file."""
    digest: str


def code_of(function: Any) -> Code | None:
    """Return the source of a function, class or callable object of the user; None if it cannot be found, and
    for functions of this package."""
    target = _unwrapped(function)
    module = getattr(target, "__module__", None) or ""
    if module.partition(".")[0] == __name__.partition(".")[0]:
        return None
    found: _Function | ast.Lambda | ast.ClassDef | None
    if isinstance(target, FunctionType):
        file, found = target.__code__.co_filename, _definition(target.__code__)
    elif isinstance(target, type) and module != "builtins":
        file, found = _class_definition(target)
    else:
        return _by_name(target)
    if found is None:
        return None
    name = getattr(found, "name", "<lambda>")
    return Code(name, file_and_line(file, found.lineno), _digest(_shown(found, renamed=True)))


def file_and_line(file: str, line: int) -> str:
    """Return `orders.py:28`, relative to the working folder if the file is below it."""
    path = Path(file)
    try:
        shown = path.relative_to(Path.cwd()).as_posix()
    except (ValueError, OSError):
        shown = path.name
    return f"{shown}:{line}"


def _unwrapped(function: Any) -> Any:
    """Return the function inside decorators (with `__wrapped__`), partials and bound methods; or the class of
    an object."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, MethodType):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = inspect.unwrap(function)
        else:
            break
    known = (type, FunctionType, BuiltinFunctionType, MethodDescriptorType)
    return function if isinstance(function, known) else type(function)


def _by_name(target: Any) -> Code | None:
    name: str = getattr(target, "__qualname__", "")
    return Code(name, "", _digest(f"{getattr(target, '__module__', '') or ''}.{name}")) if name else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]


# --- finding the definition -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Definitions:
    """What a file defines."""

    functions: dict[tuple[str, int], list[_Function]]
    """By name and first line, which is that of the first decorator."""
    lambdas: dict[int, list[ast.Lambda]]
    """By line."""
    classes: dict[str, list[ast.ClassDef]]
    """By qualified name."""


def _definition(code: CodeType) -> _Function | ast.Lambda | None:
    """Return the definition that a function was compiled from. Lambdas may share a line: the columns of the
    compiled instructions show which one it is; of nested ones it is the innermost, which starts last."""
    defined = _defined_in(code.co_filename)
    if code.co_name != "<lambda>":
        return _only(defined.functions.get((code.co_name, code.co_firstlineno), []))
    spans = list(_spans(code))
    lambdas = defined.lambdas.get(code.co_firstlineno, [])
    around = [node for node in lambdas if _covers(node.body, spans)]
    return max(around, key=lambda node: (node.lineno, node.col_offset), default=None)


def _class_definition(target: type) -> tuple[str, ast.ClassDef | None]:
    try:
        file = inspect.getfile(target)
    except (TypeError, OSError):
        return "", None
    return file, _only(_defined_in(file).classes.get(target.__qualname__, []))


def _only(found: list[T]) -> T | None:
    """Return the only element; None if there are several, since it is unknown which one is meant."""
    return found[0] if len(found) == 1 else None


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


def _defined_in(file: str) -> _Definitions:
    return _defined_by("".join(linecache.getlines(file)))


@functools.lru_cache(maxsize=64)
def _defined_by(text: str) -> _Definitions:
    found = _Definitions({}, {}, {})
    with suppress(SyntaxError, ValueError):
        _collect(ast.parse(text), "", found)
    return found


def _collect(node: ast.AST, prefix: str, found: _Definitions) -> None:
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, ast.ClassDef):
            found.classes.setdefault(f"{prefix}{child.name}", []).append(child)
            inner = f"{prefix}{child.name}."
        elif isinstance(child, _FUNCTIONS):
            first = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            found.functions.setdefault((child.name, first), []).append(child)
            inner = f"{prefix}{child.name}.<locals>."
        elif isinstance(child, ast.Lambda):
            found.lambdas.setdefault(child.lineno, []).append(child)
        _collect(child, inner, found)


# --- what is digested -----------------------------------------------------------------------------------


def _shown(value: Any, *, renamed: bool = False) -> str:
    """Return a tree as text, without positions, docstrings and empty fields: the same in all versions of
    Python that parse the same tree. With `renamed`, without the name that it defines."""
    if isinstance(value, list):
        return f"[{','.join(_shown(one) for one in value)}]"
    if not isinstance(value, ast.AST):
        return repr(value)
    fields = []
    for name, inner in ast.iter_fields(value):
        kept = _without_docstring(inner) if name == "body" and _may_have_docstring(value) else inner
        if (
            kept not in (None, [])
            and name not in ("type_comment", "kind")
            and (name, renamed) != ("name", True)
        ):
            fields.append(f"{name}={_shown(kept)}")
    return f"{type(value).__name__}({','.join(fields)})"


def _may_have_docstring(node: ast.AST) -> bool:
    return isinstance(node, (*_FUNCTIONS, ast.ClassDef))


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """Remove the docstring, and `pass`, which may have replaced a docstring."""
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            body = rest
    return [one for one in body if not isinstance(one, ast.Pass)]
