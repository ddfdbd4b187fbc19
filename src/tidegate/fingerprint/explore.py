"""Turn statements into pieces: resolve what they mention, and add what acts on them."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, field

from tidegate.fingerprint.effects import called
from tidegate.fingerprint.fingerprint import digest_of
from tidegate.fingerprint.graph import Piece
from tidegate.fingerprint.index import Index
from tidegate.fingerprint.live import Live
from tidegate.fingerprint.mentions import Dump, Imported, Mention
from tidegate.fingerprint.modules import MISSING, Module, Statement
from tidegate.fingerprint.names import Meaning
from tidegate.fingerprint.project import is_own, is_own_object, is_standard
from tidegate.fingerprint.roots import all_roots
from tidegate.fingerprint.unseen import (
    AMBIENT,
    EVERYTHING,
    EVERYTHING_BUILTIN,
    METHODS,
    NAMESPACES,
    SOURCE_ATTRIBUTES,
    SOURCE_ITSELF,
    VOLATILE,
    is_below,
    unseen,
)
from tidegate.fingerprint.values import SEPARATOR

_METHOD_TOKENS = frozenset(METHODS)
_MODULE_ATTRIBUTES = {"__name__", "__package__", "__spec__"}
_GUARDED = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.With, ast.If, ast.Try)


@dataclass(slots=True)
class _Shown:
    """What a name with its attributes becomes in the text of a statement of one module."""

    token: str
    ordered: list[Piece] = field(default_factory=list)
    extra: list[Piece] = field(default_factory=list)
    used: int = 0
    unseen: tuple[str, str] | None = None
    package: str = ""
    everything: bool = False


class Explorer:
    """Makes the pieces of one project."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.names = index.names
        self.live = Live(self)
        self.roots = all_roots(index.names.folders)
        self._statements: dict[int, Piece] = {}
        self._modules: dict[int, Piece] = {}
        self._shown: dict[tuple[int, str, tuple[str, ...], Imported | None], _Shown] = {}
        self._executed: dict[int, Piece] = {}
        self._everything: Piece | None = None
        self._source: Piece | None = None
        self._outside: dict[str, Piece] = {}

    # --- pieces -----------------------------------------------------------------------------------------

    def statement(self, statement: Statement) -> Piece:
        known = self._statements.get(id(statement))
        if known is None:
            known = Piece(
                statement.name, statement.location, lambda piece: self._expand_statement(piece, statement)
            )
            self._statements[id(statement)] = known
        return known

    def module(self, module: Module) -> Piece:
        """Everything of a module."""
        known = self._modules.get(id(module))
        if known is None:
            known = self._modules[id(module)] = Piece(expand=lambda piece: self._expand_module(piece, module))
        return known

    def executed(self, module: Module) -> Piece:
        """A module that a function imports: its statements in their order, and modules that it imports; those
        outside of the project by name, since an import that finds nothing makes the module fail. So does one
        that comes too late."""
        known = self._executed.get(id(module))
        if known is None:
            known = self._executed[id(module)] = Piece()
            outside = {self.names.outside(module, one) for one in module.executed_imports} - {""}
            known.text = f"executed module {module.late_imports} {sorted(outside)}"
            known.ordered = [self.statement(one) for one in module.statements]
            if not module.is_readable:
                known.extra.append(self.module(module))
            for imported in (*module.packages(), *module.executed_imports):
                home = self.names.home(module, imported)
                if home is not None and home.namespace is None:
                    known.extra.append(self.executed(home))
        return known

    def everything(self) -> Piece:
        """Everything of the project."""
        if self._everything is None:
            self._everything = Piece()
            self._everything.extra = [self.module(one) for one in self.names.modules.values()]
        return self._everything

    def source_itself(self) -> Piece:
        """The files of the project with comments and line numbers."""
        if self._source is None:
            self._source = Piece()
            texts = sorted(f"{one.name} {digest_of(one.text)}" for one in self.names.modules.values())
            self._source.text = SEPARATOR.join(texts)
        return self._source

    def _expand_statement(self, piece: Piece, statement: Statement) -> None:
        self.resolve(piece, statement.module, statement.dump())
        if not any(_is_own(statement.module, name) for name in statement.names):
            piece.extra += self._acting(self._index.acting_on(statement))
        piece.label = lambda name: f"constant {statement.module.name}.{name}"
        if isinstance(statement.node, _GUARDED):
            piece.guard = lambda _: self.is_volatile(statement)
        self.live.bound(piece, statement)

    def _expand_module(self, piece: Piece, module: Module) -> None:
        piece.text = "module"
        piece.extra = [self.statement(one) for one in module.statements]
        if not module.is_readable:
            piece.location = module.path
            if module.compiled is not None:
                piece.text += digest_of(module.compiled.hex())
                piece.unseen.append(("compiled", module.name))
            else:
                piece.unseen.append(("no source", module.name))
        for targets in module.imports.values():
            for one in targets:
                self._add_meaning(piece, self.names.follow(module, one, ()))
        for star in module.stars:
            self._add_meaning(piece, self.names.follow(module, star, ()))

    def _add_meaning(self, piece: Piece, meaning: Meaning) -> None:
        piece.extra += [self.statement(one) for one in meaning.statements]
        piece.extra += [self.module(one) for one in meaning.modules]

    # --- mentions ---------------------------------------------------------------------------------------

    def resolve(self, piece: Piece, module: Module, found: Dump) -> None:
        """Replace the tokens of mentions by what they stand for, and set the text."""
        tokens = found.tokens.copy()
        left_out = self._operational(module, found)
        numbers: dict[int, int] = {}
        cache, key = self._shown, id(module)
        for mention in found.mentions:
            index, name, chain, imported = mention
            if left_out and index in left_out:
                continue
            shown = cache.get((key, name, chain, imported))
            if shown is None:
                shown = cache[key, name, chain, imported] = self._show(module, mention)
            number = numbers.get(id(shown))
            if number is None:
                number = numbers[id(shown)] = len(numbers)
                self._take(piece, shown, literal=index in found.literal_imports)
            if index >= 0:
                tokens[index] = f"{shown.token} {number}"
                if shown.used:
                    tokens[index + 1 : index + 1 + shown.used] = [""] * shown.used
        for index, imported in found.imports:
            shown = self._show_import(module, imported)
            tokens[index] = shown.token
            self._take(piece, shown)
        self._unresolved(piece, found, set(tokens))
        for index in left_out:
            tokens[index] = ""
        piece.text = SEPARATOR.join(tokens)

    def _take(self, piece: Piece, shown: _Shown, *, literal: bool = False) -> None:
        piece.ordered += shown.ordered
        piece.extra += shown.extra
        if shown.unseen is not None and not literal:
            piece.unseen.append(shown.unseen)
        if shown.package:
            piece.packages.add(shown.package)
        if shown.everything and not literal:
            piece.extra.append(self.everything())

    def _unresolved(self, piece: Piece, found: Dump, tokens: set[str]) -> None:
        piece.unseen += [METHODS[one] for one in sorted(_METHOD_TOKENS & tokens)]
        if found.dynamic or not NAMESPACES.isdisjoint(tokens):
            piece.extra.append(self.everything())
        if not SOURCE_ATTRIBUTES.isdisjoint(tokens):
            piece.extra.append(self.source_itself())

    def _operational(self, module: Module, found: Dump) -> set[int]:
        """Return the tokens of settings that do not count."""
        left_out: set[int] = set()
        for start, end, mention in found.perhaps_operational:
            meaning = self.names.resolve(module, mention.name, mention.chain)
            if any(is_own(one) for one in meaning.external):
                left_out.update(range(start, end))
        return left_out

    def _show(self, module: Module, mention: Mention) -> _Shown:
        if mention.imported is not None and not mention.name:
            return self._show_late_import(module, mention.imported)
        meaning = self.names.meaning(module, mention)
        if meaning.is_known:
            shown = self._show_meaning(mention, meaning)
            if (
                mention.imported is None
                and _is_unloaded(meaning)
                and module.live(mention.name) is not MISSING
            ):
                shown.token += " of a module that nothing imports"
            return shown
        if module.live(mention.name) is not MISSING and mention.imported is None:
            if mention.name in _MODULE_ATTRIBUTES:
                return _Shown(f"module {module.name}")
            if mention.name not in ("__file__", "__builtins__"):
                return _Shown("live", ordered=[self.live.name(module, mention.name)])
        return self._show_builtin(mention)

    def _show_builtin(self, mention: Mention) -> _Shown:
        name = mention.name
        shown = _Shown(f"builtin {name}" if hasattr(builtins, name) else f"unknown {name}")
        shown.unseen = unseen(name)
        shown.everything = name in EVERYTHING_BUILTIN
        if self._index.acting_outside("builtins"):
            shown.extra.append(self._acting_on("builtins"))
        if name == "__doc__":
            shown.extra.append(self.source_itself())
        return shown

    def _show_meaning(self, mention: Mention, meaning: Meaning) -> _Shown:
        if meaning.external and not (meaning.statements or meaning.modules):
            return self._show_external(meaning.external[0], mention.chain[meaning.used :], meaning.used)
        holders = meaning.holders + self._rebound(meaning)
        if meaning.modules and all(holder.live(name) is MISSING for holder, name in holders):
            return _Shown(
                "whole module", extra=[self.module(one) for one in meaning.modules], used=meaning.used
            )
        own_name = holders[0][1] if len(holders) == 1 else mention.name
        shown = _Shown(f"project {'.' if meaning.used else ''}{own_name}", used=meaning.used)
        pieces = [self.statement(one) for one in meaning.statements]
        if len(pieces) == 1:
            shown.ordered = pieces
        else:
            shown.extra = pieces
        explained = len(pieces) == 1 and len(holders) == 1 and own_name in meaning.statements[0].names
        if not explained:
            shown.ordered += [self.live.name(holder, name) for holder, name in holders]
        for one in meaning.external:
            shown.package = shown.package or self._show_external(one, (), 0).package
        return shown

    @staticmethod
    def _rebound(meaning: Meaning) -> list[tuple[Module, str]]:
        """Return the modules where an imported name is bound to another object than where it comes from."""
        if len(meaning.holders) != 1:
            return []
        holder, name = meaning.holders[0]
        return [one for one in meaning.importers if one[0].live(one[1]) is not holder.live(name)]

    def _show_import(self, module: Module, imported: Imported) -> _Shown:
        """An import statement inside of another one: the project's own modules have no name in the text."""
        meaning = self.names.follow(module, imported, ())
        if meaning.external:
            return self._show_external(meaning.external[0], (), 0)
        shown = _Shown("project import")
        shown.extra = [self.statement(one) for one in meaning.statements]
        shown.extra += [self.module(one) for one in meaning.modules]
        return shown

    def _show_late_import(self, module: Module, imported: Imported) -> _Shown:
        """An import inside of a function executes all of a module, perhaps for the first time."""
        shown = _Shown(self._show_import(module, imported).token)
        home = self.names.home(module, imported)
        if home is not None:
            shown.extra.append(self.executed(home))
        return shown

    def _show_external(self, path: str, chain: tuple[str, ...], used: int) -> _Shown:
        shown = _Shown(f"outside {path}", used=used)
        full = ".".join([path, *chain])
        top = path.partition(".")[0]
        shown.unseen = unseen(full)
        shown.everything = is_below(full, EVERYTHING)
        if is_below(full, SOURCE_ITSELF):
            shown.extra.append(self.source_itself())
        if not is_standard(top) and not is_own(top):
            shown.package = path
        if self._index.acting_outside(top):
            shown.extra.append(self._acting_on(top))
        return shown

    # --- effects ----------------------------------------------------------------------------------------

    def _acting(self, acting: list[tuple[Statement, str]]) -> list[Piece]:
        """Leave out what builds a topology: `app.stream(...)`."""
        return [self.statement(one) for one, root in acting if not root or not _is_own(one.module, root)]

    def ambient(self) -> list[Piece]:
        """Statements that change what code does which mentions none of it: `codecs.register(search)`."""
        return [self._acting_on(top) for top in AMBIENT if self._index.acting_outside(top)]

    def _acting_on(self, top: str) -> Piece:
        """Statements that act on a module outside of the project: `decimal.getcontext().prec = 10`."""
        known = self._outside.get(top)
        if known is None:
            known = self._outside[top] = Piece()
            known.text = f"acting on {top}"
            known.extra = self._acting(self._index.acting_outside(top))
        return known

    def is_touched(self, statement: Statement) -> bool:
        return self._index.is_touched(statement)

    def is_volatile(self, statement: Statement) -> bool:
        """Whether what a statement binds is computed from the clock, the environment and so on."""
        own = self.statement(statement).unseen
        return _any_volatile(own) or self.is_volatile_expression(statement.module, statement.node)

    def is_volatile_expression(self, module: Module, node: ast.AST) -> bool:
        """Whether an expression calls the clock, the environment and so on, at any depth."""
        waiting: list[Piece] = []
        for name, chain, _, _ in called(node):
            meaning = self.names.resolve(module, name, chain)
            paths = [".".join([path, *chain[meaning.used :]]) for path in meaning.external]
            if _any_volatile([found for found in map(unseen, paths) if found is not None]):
                return True
            waiting += [self.statement(one) for one in meaning.statements]
        seen = set()
        while waiting:
            one = waiting.pop()
            if id(one) not in seen:
                seen.add(id(one))
                if _any_volatile(one.unseen):
                    return True
                waiting += one.ordered
        return False


def _is_unloaded(meaning: Meaning) -> bool:
    """Whether it leads to a module that is not loaded: `import package`, then `package.module.function`."""
    modules = [*meaning.modules, *(one for one, _ in meaning.holders)]
    return any(one.namespace is None for one in modules)


def _any_volatile(found: list[tuple[str, str]]) -> bool:
    return any(what in VOLATILE for what, _ in found)


def _is_own(module: Module, name: str) -> bool:
    """Whether a name of a module stands for something of tidegate."""
    live = module.live(name)
    return live is not MISSING and is_own_object(live)
