"""Show a statement as tokens that depend on its meaning alone, and list the names that it mentions.

Comments, positions, docstrings and `pass` leave no token. The same source has the same tokens in Python 3.11
to 3.13: fields that only some versions have are left out while they are empty.

Names are resolved as Python does it: a name that a function, lambda or comprehension binds is local and is
shown as it is. Every other name is a *mention*: its token is replaced once it is known what it stands for,
so that neither the alias nor the module of an import counts. One walk does it all: names wait in their scope
until it ends, and those that the scope does not bind move to the scope around it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from tidegate.fingerprint.mentions import Dump, Imported, Mention, Scope, constant, settings_marks

_LEFT_OUT = {"ctx", "type_comment", "kind", "type_ignores", "lineno", "simple"}
_ADDED_BY_NEWER_VERSIONS = {"type_params", "default_value"}
_BODIES = {"body", "orelse", "finalbody"}
_mention = tuple.__new__
"""Makes a mention in half the time of calling the class: there is one for each name of the source."""
_DYNAMIC_CALLS = ("import_module", "__import__")


def dump(node: ast.AST, free: Iterable[str] = ()) -> Dump:
    """Return the tokens of a statement, or of a function inside one. `free` are names of functions around it
    that it closes over: their values are not part of the source."""
    walk = _Walk(free)
    walk.visit(node)
    return walk.finished()


class _Walk:
    def __init__(self, free: Iterable[str]) -> None:
        self._found = Dump()
        self._tokens = self._found.tokens
        self._free = frozenset(free)
        self._scopes = [Scope("module")]
        self._scope = self._scopes[0]
        self._annotation = False

    def finished(self) -> Dump:
        mentions = self._found.mentions
        mentions.extend(one for one in self._scope.pending if one.name not in self._free)
        return self._found

    def visit(self, node: ast.AST) -> None:
        kind = node.__class__
        special = _SPECIAL.get(kind)
        if special is not None:
            special(self, node)
            return
        tokens = self._tokens
        tokens.append(kind.__name__)
        fields = _FIELDS.get(kind)
        if fields is None:
            fields = _FIELDS[kind] = tuple(name for name in kind._fields if name not in _LEFT_OUT)
        for name in fields:
            value: Any = getattr(node, name, None)
            if value.__class__ is list:
                if name in _BODIES:
                    self._body(value)
                elif value or name not in _ADDED_BY_NEWER_VERSIONS:
                    self._list(value)
            elif isinstance(value, ast.AST):
                self.visit(value)
            elif value is not None:
                tokens.append(constant(value))
            elif name not in _ADDED_BY_NEWER_VERSIONS:
                tokens.append("-")

    def _list(self, values: list[Any]) -> None:
        for value in values:
            if isinstance(value, ast.AST):
                self.visit(value)
            else:
                self._tokens.append("-" if value is None else constant(value))
        self._tokens.append("]")

    def _body(self, statements: list[Any]) -> None:
        """Leave out what has no effect: docstrings, other bare constants, and `pass`."""
        for one in statements:
            kind = one.__class__
            if kind is ast.Pass or (kind is ast.Expr and one.value.__class__ is ast.Constant):
                continue
            self.visit(one)
        self._tokens.append("]")

    # --- names ------------------------------------------------------------------------------------------

    def _name(self, node: ast.Name) -> None:
        scope = self._scope
        if node.ctx.__class__ is not ast.Load:
            scope.bind(node.id)
            if scope.kind == "module" or (scope.kind == "class" and node.id not in scope.declared):
                self._tokens.append(node.id)
                return
        scope.pending.append(_mention(Mention, (len(self._tokens), node.id, (), None)))
        self._tokens.append(node.id)

    def _attribute(self, node: ast.Attribute) -> None:
        names = [node.attr]
        base: ast.expr = node.value
        while base.__class__ is ast.Attribute:
            names.append(base.attr)
            base = base.value
        names.reverse()
        if base.__class__ is ast.Name:
            identifier: str = base.id
            self._scope.pending.append(_mention(Mention, (len(self._tokens), identifier, tuple(names), None)))
            self._tokens.append(identifier)
        else:
            self.visit(base)
        self._tokens.extend(["." + name for name in names])

    def _constant(self, node: ast.Constant) -> None:
        if self._annotation and isinstance(node.value, str):
            try:
                inner = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError):
                pass
            else:
                self.visit(inner)
                return
        self._tokens.append(constant(node.value))

    def _annotated(self, node: ast.expr | None) -> None:
        """Show an annotation; names inside quotes count as names."""
        if node is None:
            self._tokens.append("-")
            return
        before, self._annotation = self._annotation, True
        self.visit(node)
        self._annotation = before

    def _annotated_assignment(self, node: ast.AnnAssign) -> None:
        self._tokens.append("AnnAssign")
        self.visit(node.target)
        self._annotated(node.annotation)
        if node.value is None:
            self._tokens.append("-")
        else:
            self.visit(node.value)

    def _call(self, node: ast.Call) -> None:
        func, arguments = node.func, node.args
        name = getattr(func, "id", None) or getattr(func, "attr", None)
        if name == "getattr" and len(arguments) > 1:
            self._getattr(arguments[0], arguments[1])
        elif name in _DYNAMIC_CALLS and arguments and isinstance(arguments[0], ast.Constant):
            self._literal_import(str(arguments[0].value))
        self._tokens.append("Call")
        self.visit(func)
        if name == "getLogger" and arguments and getattr(arguments[0], "id", "") == "__name__":
            self._tokens.append("logger")  # its name is no logic, and it changes with the file
            arguments = arguments[1:]
        self._list(arguments)
        for keyword in node.keywords:
            self._tokens.append(f"{keyword.arg or '**'}=")
            self.visit(keyword.value)
        self._tokens.append("]")

    def _literal_import(self, path: str) -> None:
        """`import_module("shop.prices")`; `__import__` returns the package. Relative names are dynamic."""
        if path.startswith("."):
            return
        self._found.literal_imports.add(len(self._tokens) + 1)
        parts = path.split(".")
        for inner in (".".join(parts[:count]) for count in range(1, len(parts) + 1)):
            self._scope.pending.append(Mention(-1, inner, (), Imported(inner)))

    def _getattr(self, target: ast.expr, attribute: ast.expr) -> None:
        if not (isinstance(attribute, ast.Constant) and isinstance(attribute.value, str)):
            self._found.dynamic.append("getattr")
            return
        names = [attribute.value]
        while isinstance(target, ast.Attribute):
            names.append(target.attr)
            target = target.value
        if isinstance(target, ast.Name):
            self._scope.pending.append(Mention(-1, target.id, tuple(reversed(names))))

    def _text(self, node: ast.JoinedStr) -> None:
        """Merge neighbouring constants of an f-string: versions of Python cut them differently."""
        self._tokens.append("JoinedStr")
        text = ""
        for value in node.values:
            if isinstance(value, ast.Constant):
                text += str(value.value)
                continue
            if text:
                self._tokens.append(constant(text))
                text = ""
            self.visit(value)
        if text:
            self._tokens.append(constant(text))
        self._tokens.append("]")

    # --- statements that bind ---------------------------------------------------------------------------

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            self._binds_import(bound, Imported(alias.name if alias.asname else bound), Imported(alias.name))

    def _import_from(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            target = Imported(node.module or "", node.level, alias.name)
            self._binds_import(alias.asname or alias.name, target, target)

    def _binds_import(self, bound: str, target: Imported, shown: Imported) -> None:
        self._scope.bind(bound)
        self._scope.imports.setdefault(bound, target)
        self._tokens.append("Import")
        if self._scope.kind == "function":
            self._scope.pending.append(Mention(len(self._tokens), "", (), shown))
        else:
            self._found.imports.append((len(self._tokens), shown))
        self._tokens.append("imported")

    def _declaration(self, node: ast.Global | ast.Nonlocal) -> None:
        self._scope.declared.update(node.names)
        self._tokens.extend([node.__class__.__name__, *node.names, "]"])

    def _handler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._scope.bind(node.name)
        self._tokens.extend(("ExceptHandler", node.name or "-"))
        if node.type is None:
            self._tokens.append("-")
        else:
            self.visit(node.type)
        self._body(node.body)

    def _capture(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self._scope.bind(node.name)
        self._tokens.extend((node.__class__.__name__, node.name or "-"))
        pattern = getattr(node, "pattern", None)
        if pattern is not None:
            self.visit(pattern)
        self._tokens.append("]")

    def _mapping_pattern(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self._scope.bind(node.rest)
        self._tokens.extend(("MatchMapping", node.rest or "-"))
        self._list(node.keys)
        self._list(node.patterns)

    def _walrus(self, node: ast.NamedExpr) -> None:
        """In a comprehension it binds in the function around."""
        for scope in reversed(self._scopes):
            if scope.kind != "comprehension":
                scope.bind(node.target.id)
                break
        self._tokens.append("NamedExpr")
        self._scope.pending.append(Mention(len(self._tokens), node.target.id))
        self._tokens.append(node.target.id)
        self.visit(node.value)

    # --- scopes -----------------------------------------------------------------------------------------

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._scope.bind(node.name)
        self._tokens.extend((node.__class__.__name__, node.name))
        self._list(node.decorator_list)
        self._type_parameters(node)
        names = self._arguments(node.args)
        self._annotated(node.returns)
        self._enter("function", names)
        self._body(node.body)
        self._leave()

    def _lambda(self, node: ast.Lambda) -> None:
        self._tokens.append("Lambda")
        self._enter("function", self._arguments(node.args))
        self.visit(node.body)
        self._leave()

    def _arguments(self, node: ast.arguments) -> list[str]:
        tokens, names = self._tokens, []
        for mark, arguments in (("/", node.posonlyargs), ("", node.args), ("*", node.kwonlyargs)):
            for argument in arguments:
                tokens.append(argument.arg)
                names.append(argument.arg)
                self._annotated(argument.annotation)
            tokens.append(mark)
        for rest in (node.vararg, node.kwarg):
            if rest is None:
                tokens.append("-")
            else:
                tokens.append(rest.arg)
                names.append(rest.arg)
                self._annotated(rest.annotation)
        self._list(node.defaults)
        self._list(node.kw_defaults)
        return names

    def _type_parameters(self, node: Any) -> None:
        parameters = getattr(node, "type_params", None)
        if parameters:
            self._list(parameters)

    def _class(self, node: ast.ClassDef) -> None:
        self._scope.bind(node.name)
        self._tokens.extend(("ClassDef", node.name))
        self._list(node.decorator_list)
        self._type_parameters(node)
        self._list(node.bases)
        for keyword in node.keywords:
            self._tokens.append(f"{keyword.arg or '**'}=")
            self.visit(keyword.value)
        self._enter("class", [])
        for one in node.body:
            start, marks = len(self._tokens), settings_marks(one)
            self._body([one])
            for name, chain in marks:
                self._found.perhaps_operational.append((start, len(self._tokens), Mention(-1, name, chain)))
        self._leave()

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        self._tokens.append(node.__class__.__name__)
        self.visit(node.generators[0].iter)
        self._enter("comprehension", [])
        for number, generator in enumerate(node.generators):
            self._tokens.append("async for" if generator.is_async else "for")
            self.visit(generator.target)
            if number:
                self.visit(generator.iter)
            self._list(generator.ifs)
        if isinstance(node, ast.DictComp):
            self.visit(node.key)
            self.visit(node.value)
        else:
            self.visit(node.elt)
        self._leave()

    def _enter(self, kind: str, names: list[str]) -> None:
        self._scope = Scope(kind)
        self._scopes.append(self._scope)
        for name in names:
            self._scope.bind(name)

    def _leave(self) -> None:
        """Move the names that the scope does not bind to the scope around it. A name that a class binds may
        still be the global one, if it is read first: it counts as mentioned."""
        scope = self._scopes.pop()
        self._scope = around = self._scopes[-1]
        bound, pending = scope.bound, around.pending
        for one in scope.pending:
            name = one.name
            if one.imported is not None or name not in bound or name in scope.declared:
                pending.append(one)
            elif name in scope.imports:
                token = one.token if bound[name] == 1 else -1
                pending.append(one._replace(token=token, imported=scope.imports[name]))
            elif scope.kind == "class":
                pending.append(one._replace(token=-1))


_FIELDS: dict[type, tuple[str, ...]] = {}
_SPECIAL: dict[type, Callable[[_Walk, Any], None]] = {
    ast.Name: _Walk._name,
    ast.Attribute: _Walk._attribute,
    ast.Constant: _Walk._constant,
    ast.AnnAssign: _Walk._annotated_assignment,
    ast.Call: _Walk._call,
    ast.JoinedStr: _Walk._text,
    ast.Import: _Walk._import,
    ast.ImportFrom: _Walk._import_from,
    ast.Global: _Walk._declaration,
    ast.Nonlocal: _Walk._declaration,
    ast.ExceptHandler: _Walk._handler,
    ast.MatchAs: _Walk._capture,
    ast.MatchStar: _Walk._capture,
    ast.MatchMapping: _Walk._mapping_pattern,
    ast.NamedExpr: _Walk._walrus,
    ast.FunctionDef: _Walk._function,
    ast.AsyncFunctionDef: _Walk._function,
    ast.Lambda: _Walk._lambda,
    ast.ClassDef: _Walk._class,
    ast.ListComp: _Walk._comprehension,
    ast.SetComp: _Walk._comprehension,
    ast.GeneratorExp: _Walk._comprehension,
    ast.DictComp: _Walk._comprehension,
}
