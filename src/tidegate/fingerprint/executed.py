"""Which statements are executed, and which are touched, while the project is imported.

A container that starts empty is a cache, unless code that is executed at import may have filled it: then its
content counts. Such code reaches it by name, as an argument of a call, through an alias or a loop. Functions
that are passed to a call count as executed, too, except where a topology or a partial is built.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from tidegate.fingerprint.effects import changes_something, place_root, places
from tidegate.fingerprint.modules import FUNCTIONS, MISSING, Module, Statement
from tidegate.fingerprint.names import Names
from tidegate.fingerprint.project import is_own, is_own_object
from tidegate.fingerprint.unseen import NOT_ACTED_ON

_DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
_WITHOUT_PARTS = (ast.Name, ast.Constant, ast.Load, ast.Store)
_KEPT = {
    *(ast.Call, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete, ast.Expr),
    *(ast.Import, ast.ImportFrom),
}
Found = tuple[str, tuple[str, ...], bool]
"""A name, its attributes, and whether it is called or passed to a call."""


class Executed:
    """What an import of the project executes; computed once."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.touched: set[int] = set()
        self.outside: dict[str, list[tuple[Statement, str]]] = {}
        """Statements that act, by functions which they call, on a module outside of the project."""
        self._callers: dict[int, list[Statement]] = {}
        self._inside: dict[int, list[ast.AST]] = {}
        waiting: list[Statement] = []
        for module in names.modules.values():
            for statement in module.statements:
                waiting += self._started(statement)
        executed: dict[int, Statement] = {}
        while waiting:
            one = waiting.pop()
            if id(one) not in executed:
                executed[id(one)] = one
                waiting += self._followed(one)
        for one in executed.values():
            self._find_acting(one)

    def _started(self, statement: Statement) -> Iterator[Statement]:
        module = statement.module
        for name, chain, is_executed in _names(statement.node, lambda call: self._is_inert(statement, call)):
            targets = self._names.resolve(module, name, chain).statements
            yield from self._use(statement, targets, is_executed=is_executed)
        if isinstance(statement.node, _DEFINITIONS) and self._is_passed(statement):
            yield statement

    def _followed(self, statement: Statement) -> Iterator[Statement]:
        called: set[str] | None = None
        if isinstance(statement.node, _DEFINITIONS):
            inside = self._inside[id(statement)] = _kept_inside(statement.node)
            called = {name for one in inside if isinstance(one, ast.Call) for name in _used_by(one)}
        for mention in statement.dump().mentions:
            targets = self._names.meaning(statement.module, mention).statements
            yield from self._use(statement, targets, is_executed=called is None or mention.name in called)

    def _use(self, user: Statement, targets: list[Statement], *, is_executed: bool) -> Iterator[Statement]:
        for one in targets:
            self.touched.add(id(one))
            if is_executed and one is not user:
                self._callers.setdefault(id(one), []).append(user)
                yield one

    def _is_inert(self, statement: Statement, call: ast.Call) -> bool:
        """Whether a call executes none of its arguments: it builds a topology or a partial."""
        start, chain = place_root(call.func)
        if not isinstance(start, ast.Name):
            return False
        live = statement.module.live(start.id)
        if live is not MISSING and is_own_object(live):
            return True
        paths = self._names.resolve(statement.module, start.id, chain).external
        return any(is_own(path) or path.partition(".")[0] == "functools" for path in paths)

    def _is_passed(self, statement: Statement) -> bool:
        """Whether code of the project gets the function or class as soon as it is defined."""
        node = statement.node
        users: list[ast.expr] = list(getattr(node, "decorator_list", ()))
        if isinstance(node, ast.ClassDef):
            users += [one.value for one in node.keywords]
        for user in users:
            start, chain = place_root(user)
            if isinstance(start, ast.Name) and self._statements(statement, start.id, chain):
                return True
        for base in getattr(node, "bases", ()):
            start, chain = place_root(base)
            if isinstance(start, ast.Name):
                found = self._statements(statement, start.id, chain)
                if any("__init_subclass__" in one.dump().tokens for one in found):
                    return True
        return False

    def _statements(self, statement: Statement, name: str, chain: tuple[str, ...]) -> list[Statement]:
        return self._names.resolve(statement.module, name, chain).statements

    def _find_acting(self, statement: Statement) -> None:
        """`def configure(): decimal.getcontext().prec = 9`"""
        if not isinstance(statement.node, _DEFINITIONS):
            return
        nodes = self._inside[id(statement)]
        inside = _imported(nodes)
        tops: set[str] = set()
        for name, chain in _acted(nodes):
            paths = external_behind(self._names, statement.module, name, chain) or inside.get(name, [])
            tops |= {path.partition(".")[0] for path in paths}
        tops = {one for one in tops if one not in NOT_ACTED_ON and not is_own(one)}
        if tops:
            acting = list(self._leading_to(statement))
            for top in sorted(tops):
                self.outside.setdefault(top, []).extend((one, "") for one in acting)

    def _leading_to(self, statement: Statement) -> Iterator[Statement]:
        waiting, seen = [statement], set()
        while waiting:
            one = waiting.pop()
            if id(one) not in seen:
                seen.add(id(one))
                yield one
                waiting += self._callers.get(id(one), [])


def external_behind(names: Names, module: Module, name: str, chain: tuple[str, ...]) -> list[str]:
    """Return what a name stands for outside of the project, also through `context = decimal.getcontext()`."""
    meaning = names.resolve(module, name, chain)
    found = list(meaning.external)
    for one in meaning.statements:
        value = getattr(one.node, "value", None)
        start, inner = place_root(value) if isinstance(value, ast.expr) else (None, ())
        if isinstance(start, ast.Name) and isinstance(one.node, ast.Assign):
            found += names.resolve(one.module, start.id, inner).external
    return found


def _names(  # noqa: C901, PLR0912 - one case for each kind of node
    node: ast.AST, is_inert: Callable[[ast.Call], bool], *, inside: bool = False
) -> Iterator[Found]:
    """Yield the names in code that is executed at import; `inside` of a call they are executed themselves."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            for decorator in node.decorator_list:
                yield from _names(decorator, is_inert, inside=True)
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if default is not None:
                    yield from _names(default, is_inert)
            return
        case ast.Lambda() if not inside:
            return
        case ast.ClassDef():
            for used in (*node.decorator_list, *node.bases, *(one.value for one in node.keywords)):
                yield from _names(used, is_inert, inside=True)
            for one in node.body:
                yield from _names(one, is_inert)
            return
        case ast.Name(ctx=ast.Load()):
            yield node.id, (), inside
            return
        case ast.Attribute():
            start, chain = place_root(node, calls=False)
            if isinstance(start, ast.Name):
                yield start.id, chain, inside
                return
        case ast.Call():
            inside = not is_inert(node)
        case ast.Subscript() | ast.withitem() | ast.For():
            inside = True
    for child in ast.iter_child_nodes(node):
        yield from _names(child, is_inert, inside=inside)


def _kept_inside(node: ast.AST) -> list[ast.AST]:
    """Return the calls, assignments and imports inside of a definition."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [node]
    while waiting:
        one = waiting.pop()
        if one.__class__ in _KEPT:
            found.append(one)
        for value in one.__dict__.values():
            if value.__class__ is list:
                waiting += [inner for inner in value if isinstance(inner, ast.AST)]
            elif isinstance(value, ast.AST) and value.__class__ not in _WITHOUT_PARTS:
                waiting.append(value)
    return found


def _used_by(call: ast.Call) -> Iterator[str]:
    """Yield the names of what is called, and of its arguments."""
    for one in (call.func, *call.args, *(keyword.value for keyword in call.keywords)):
        parts = one.elts if isinstance(one, (ast.Tuple, ast.List, ast.Set)) else [one]
        if isinstance(one, ast.Dict):
            parts = one.values
        for part in parts:
            start, _ = place_root(part.value if isinstance(part, ast.Starred) else part)
            if isinstance(start, ast.Name):
                yield start.id


def _imported(nodes: list[ast.AST]) -> dict[str, list[str]]:
    """Return the names that imports inside of a function bind, with their modules."""
    found: dict[str, list[str]] = {}
    for one in nodes:
        if isinstance(one, ast.Import):
            for alias in one.names:
                found.setdefault(alias.asname or alias.name.partition(".")[0], []).append(alias.name)
        elif isinstance(one, ast.ImportFrom) and not one.level and one.module:
            for alias in one.names:
                found.setdefault(alias.asname or alias.name, []).append(one.module)
    return found


def _acted(nodes: list[ast.AST]) -> Iterator[tuple[str, tuple[str, ...]]]:  # noqa: C901 - many kinds
    """Yield the names whose attributes or items a function sets, or whose functions it calls for their
    effect; of a local variable, the name where its value comes from."""
    locals_: dict[str, list[ast.expr]] = {}
    for one in nodes:
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
            locals_.setdefault(one.targets[0].id, []).append(one.value)
    for one in nodes:
        acted: list[ast.expr] = []
        match one:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                acted = [place for target in targets for place in places(target)]
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                acted = list(places(target))
            case ast.Expr(value=ast.Call(func=func, args=args)):
                acted = [func, *args[:1]] if getattr(func, "id", "") == "setattr" else [func]
            case ast.Call(func=func) if changes_something(func):
                acted = [func]
        for place in acted:
            start, chain = place_root(place)
            if isinstance(start, ast.Name):
                yield start.id, chain
                for value in locals_.get(start.id, []):
                    origin, origin_chain = place_root(value)
                    if isinstance(origin, ast.Name):
                        yield origin.id, origin_chain
