"""The codes of errors, found in the text of the source and of the tests.

In the source a code is the first argument of an error class, or what comes to that by a function's argument,
a choice of two, or a table of the module. In the tests it counts where it is compared or looked for; what a
test itself makes errors of, and prose, does not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

IN_A_TABLE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+|closed")
SHAPE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_IN_TEXT = re.compile(r"(?<![\w-])[a-z][a-z0-9]*(?:-[a-z0-9]+)+(?![\w-])")
_IN_BRACKETS = re.compile(r"\[([a-z]+)\\?\]")
"""A code of one word is an ordinary word elsewhere."""
ROOT_CLASS = "TidegateError"
SPELLED = {"f'no-such-{what}'": ("no-such-gate", "no-such-store")}


Call = tuple[ast.Call, "ast.FunctionDef | None"]


@dataclass(frozen=True)
class Module:
    """A file of Python."""

    path: Path
    tree: ast.Module

    @property
    def nodes(self) -> list[ast.AST]:
        return self._walked[0]

    @property
    def calls(self) -> list[Call]:
        """Every call, with the innermost function that it stands in."""
        return self._walked[1]

    @cached_property
    def _walked(self) -> tuple[list[ast.AST], list[Call]]:
        """Nodes and calls in one pass: there are half a million."""
        nodes: list[ast.AST] = []
        calls: list[Call] = []
        waiting: list[tuple[ast.AST, ast.FunctionDef | None]] = [(self.tree, None)]
        while waiting:
            node, inside = waiting.pop()
            nodes.append(node)
            if isinstance(node, ast.Call):
                calls.append((node, inside))
            within = node if isinstance(node, ast.FunctionDef) else inside
            waiting += [(child, within) for child in ast.iter_child_nodes(node)]
        return nodes, calls


def modules(folder: Path) -> list[Module]:
    return [Module(path, ast.parse(path.read_text())) for path in sorted(folder.rglob("*.py"))]


def error_classes(source: Iterable[Module]) -> set[str]:
    """The root and everything that is made of it."""
    classes = [node for one in source for node in one.nodes if isinstance(node, ast.ClassDef)]
    known = {ROOT_CLASS}
    while True:
        more = {one.name for one in classes if any(_last(base) in known for base in one.bases)} - known
        if not more:
            return known
        known |= more


def source_codes(source: list[Module]) -> tuple[dict[str, str], list[str]]:
    """Each code with a place where it is given, and the places where the code is not known."""
    classes = error_classes(source)
    codes: dict[str, str] = {}
    unclear: list[str] = []
    passed_on: dict[str, int] = {}
    for module in source:
        for call, inside in module.calls:
            given = _code_of(call, classes)
            place = f"{module.path.name}:{call.lineno}"
            if given is None:
                continue
            if isinstance(given, ast.Name) and inside is not None and given.id in _parameters(inside):
                passed_on[inside.name] = _parameters(inside).index(given.id)
                continue
            found = _resolved(given, inside, module)
            if found is None:
                unclear.append(f"{place} {ast.unparse(given)}")
            codes |= dict.fromkeys(found or (), place)
    return codes | _passed_on(source, passed_on), unclear


def _code_of(call: ast.Call, classes: set[str]) -> ast.expr | None:
    """What a call gives as the code of an error, if it makes one."""
    given = _argument(call, 0, "code")
    if _last(call.func) == "__init__" and ast.unparse(call.func) == "super().__init__":
        return given if isinstance(given, ast.Constant) and SHAPE.fullmatch(str(given.value)) else None
    return given if _last(call.func) in classes - {"FencedError"} else None


def _passed_on(
    source: list[Module], functions: dict[str, int], seen: frozenset[str] = frozenset()
) -> dict[str, str]:
    """The codes that are handed to functions which make errors of them. `seen` are the names of functions
    whose calls were looked at already: functions of two modules may have one name."""
    found, further = {}, {}
    for module in source:
        for call, inside in module.calls:
            if (name := _last(call.func)) in functions:
                given = _argument(call, functions[name], "code")
                if isinstance(given, ast.Constant) and SHAPE.fullmatch(str(given.value)):
                    found[str(given.value)] = f"{module.path.name}:{call.lineno}"
                elif isinstance(given, ast.Name) and inside is not None and given.id in _parameters(inside):
                    further[inside.name] = _parameters(inside).index(given.id)
    seen |= functions.keys()
    unknown = {name: index for name, index in further.items() if name not in seen}
    return found | (_passed_on(source, unknown, seen) if unknown else {})


def looked_for(tests: Iterable[Module], classes: set[str], codes: Iterable[str]) -> set[str]:
    """Those of the codes that a test compares with something, or looks for in a text."""
    wanted = set(codes)
    found: set[str] = set()
    for module in tests:
        made = {
            id(inner) for call, _ in module.calls if _last(call.func) in classes for inner in ast.walk(call)
        }
        left_out = made | {id(node.value) for node in module.nodes if isinstance(node, ast.Expr)}
        for node in module.nodes:
            if isinstance(node, ast.Constant) and id(node) not in left_out:
                text = node.value.decode(errors="replace") if isinstance(node.value, bytes) else node.value
                if isinstance(text, str):
                    found |= wanted & {text, *_IN_TEXT.findall(text), *_IN_BRACKETS.findall(text)}
    return found


def _resolved(given: ast.expr, inside: ast.FunctionDef | None, module: Module) -> list[str] | None:
    """The codes that an argument can be; none if it is another error's; None if that is not known."""
    if isinstance(given, ast.Constant):
        return [str(given.value)]
    if isinstance(given, ast.Attribute) and given.attr == "code":
        return []
    if isinstance(given, ast.Subscript) and ast.unparse(given.slice) == "'code'":
        return []
    if ast.unparse(given) in SPELLED:
        return list(SPELLED[ast.unparse(given)])
    if isinstance(given, ast.Name) and inside is not None:
        tables = [node for node in module.tree.body if isinstance(node, ast.Assign | ast.AnnAssign)]
        texts = [
            node for part in (inside, *tables) for node in ast.walk(part) if isinstance(node, ast.Constant)
        ]
        return [
            text.value for text in texts if isinstance(text.value, str) and IN_A_TABLE.fullmatch(text.value)
        ] or None
    return None


def _argument(call: ast.Call, index: int, name: str) -> ast.expr | None:
    named = next((word.value for word in call.keywords if word.arg == name), None)
    return call.args[index] if len(call.args) > index else named


def _parameters(function: ast.FunctionDef) -> list[str]:
    return [one.arg for one in function.args.args if one.arg != "self"]


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
