"""Which names a top-level statement acts on when it is executed at import.

`@register("a")`, `HANDLERS["a"] = f`, `Order.total = total` and `configure(prices)` change something that
other code uses. Such a statement is reached from each name that it acts on. Bodies of functions are not
executed at import and are left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple


class Acted(NamedTuple):
    """A name that a statement acts on."""

    name: str
    chain: tuple[str, ...]
    root: str
    """The name where the expression begins: `app` in `app.stream(ORDERS).map(total)`. Empty if it is none."""
    outside: bool
    """Whether it counts, too, if the name stands for something outside of the project."""


_NEVER_EXECUTED = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_VERBS = re.compile(r"_*(set|register|enable|disable|install|patch|seed|config|use|update|add|push)")
_PLACES = (ast.Attribute, ast.Subscript)


def acted_on(node: ast.stmt) -> Iterator[Acted]:
    """Yield the names that a statement acts on."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            for decorator in node.decorator_list:
                yield from _names(decorator, outside=changes_something(decorator))
        case ast.ClassDef():
            yield from _by_class(node)
        case ast.Assign() | ast.AnnAssign():
            yield from _by_assignment(node)
        case ast.AugAssign() | ast.Delete():
            for target in node.targets if isinstance(node, ast.Delete) else [node.target]:
                yield from _names(target, outside=True)
        case ast.If(test=test) if ast.unparse(test) == "__name__ == '__main__'":
            return
        case _:
            yield from _inner(node)


def changes_something(function: ast.expr) -> bool:
    """Whether a function is called for its effect, by its name: `set_option`, `register_accessor`."""
    function = function.func if isinstance(function, ast.Call) else function
    return bool(_VERBS.match(str(getattr(function, "attr", None) or getattr(function, "id", ""))))


def called(node: ast.AST) -> Iterator[Acted]:
    """Yield the names in calls that a statement executes."""
    if isinstance(node, ast.Call):
        yield from _names(node, outside=True)
    elif not isinstance(node, _NEVER_EXECUTED):
        for child in ast.iter_child_nodes(node):
            yield from called(child)


def _by_class(node: ast.ClassDef) -> Iterator[Acted]:
    for expression in (*node.decorator_list, *node.bases, *(one.value for one in node.keywords)):
        yield from _names(expression, outside=changes_something(expression))
    for inner in node.body:
        yield from (one._replace(outside=False) for one in acted_on(inner))


def _by_assignment(node: ast.Assign | ast.AnnAssign) -> Iterator[Acted]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if found := [one for target in targets for one in places(target)]:
        for place in found:
            yield from _names(place, outside=True)
        if node.value is not None:
            yield from called(node.value)
    for one in ast.walk(node.value) if node.value is not None else ():
        if isinstance(one, ast.Call) and changes_something(one.func):
            yield from _names(one.func, outside=True)


def _inner(node: ast.AST) -> Iterator[Acted]:
    """Yield what the statements and expressions inside of a compound statement act on."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield from acted_on(child)
        elif isinstance(child, ast.expr):
            yield from called(child)
        else:
            yield from _inner(child)


def _names(node: ast.AST, *, outside: bool, root: str = "") -> Iterator[Acted]:
    if isinstance(node, (ast.Attribute, ast.Name, ast.Call, ast.Subscript)):
        start, chain = place_root(node)
        if isinstance(start, ast.Name):
            root = root or start.id
            if isinstance(node, (ast.Attribute, ast.Name)):
                yield Acted(start.id, chain, root, outside)
                return
    if not isinstance(node, _NEVER_EXECUTED):
        for child in ast.iter_child_nodes(node):
            yield from _names(child, outside=outside, root=root)


def place_root(node: ast.AST, *, calls: bool = True) -> tuple[ast.AST, tuple[str, ...]]:
    """Return the start of `a.b(1).c`, and the attributes right behind it: `a`, (`b`, `c`)."""
    chain: list[str] = []
    while True:
        match node:
            case ast.Attribute():
                chain.append(node.attr)
                node = node.value
            case ast.Call() if calls:
                node = node.func
            case ast.Subscript() if calls:
                node = node.value
            case _:
                return node, tuple(reversed(chain))


def places(target: ast.expr) -> Iterator[ast.expr]:
    """Yield the attributes and items that an assignment sets."""
    if isinstance(target, _PLACES):
        yield target
    elif isinstance(target, (ast.Tuple, ast.List)):
        for one in target.elts:
            yield from places(one)
