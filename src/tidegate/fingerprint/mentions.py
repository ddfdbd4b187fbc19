"""The parts of a shown statement: tokens, mentions and scopes."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Imported(NamedTuple):
    """What an import statement binds to a name: a module, or an attribute of one."""

    module: str
    level: int = 0
    attribute: str | None = None


class Mention(NamedTuple):
    """A name that is bound outside of the statement, with the attributes that follow it."""

    token: int
    """Index of its token; the attributes follow. -1: it has no token, it only counts as mentioned."""
    name: str
    chain: tuple[str, ...] = ()
    imported: Imported | None = None
    """If an import inside of the function binds the name."""


@dataclass(slots=True)
class Dump:
    tokens: list[str] = field(default_factory=list)
    mentions: list[Mention] = field(default_factory=list)
    imports: list[tuple[int, Imported]] = field(default_factory=list)
    """Import statements inside of the statement: the index of their token, and what they import."""
    dynamic: list[str] = field(default_factory=list)
    """Names that only exist when the code runs: `getattr` with a variable."""
    literal_imports: set[int] = field(default_factory=set)
    """Tokens of `import_module` with a constant: these are not dynamic."""
    perhaps_operational: list[tuple[int, int, Mention]] = field(default_factory=list)
    """Fields that do not count if the name is tidegate's: first token, end, `operational` or `Secret`."""


class Scope:
    __slots__ = ("bound", "declared", "imports", "kind", "pending")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.bound: dict[str, int] = {}
        self.declared: set[str] = set()
        self.imports: dict[str, Imported] = {}
        self.pending: list[Mention] = []

    def bind(self, name: str) -> None:
        self.bound[name] = self.bound.get(name, 0) + 1


def settings_marks(statement: ast.stmt) -> list[tuple[str, tuple[str, ...]]]:
    """Return names that may make it a setting which does not count: `= operational(1)`, `: Secret`."""
    if not isinstance(statement, ast.AnnAssign):
        return []
    candidates = list(ast.walk(statement.annotation))
    if isinstance(statement.value, ast.Call):
        candidates.append(statement.value.func)
    found: list[tuple[str, tuple[str, ...]]] = []
    for one in candidates:
        if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name):
            found.append((one.value.id, (one.attr,)))
        elif isinstance(one, ast.Name):
            found.append((one.id, ()))
    return [(name, chain) for name, chain in found if (chain or (name,))[-1] in ("operational", "Secret")]


def constant(value: Any) -> str:
    """Return a constant as text that does not depend on the version of Unicode."""
    try:
        return ascii(value)
    except ValueError:  # an integer of more digits than Python converts
        return hex(value)
