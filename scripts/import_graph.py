"""Print which package of tidegate imports which: edges with counts, circles, upward imports.

    python scripts/import_graph.py                  the packages of this tree
    python scripts/import_graph.py --rev 3447c01    the packages as of a commit
    python scripts/import_graph.py --room runtime   the rooms of one package

A file of the package root (`app.py`) counts as a package of its own.
`tests/tidy/test_import_rules.py` compares the same graph with the rules.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LAYERS = (
    "errors types",
    "clock config record fingerprint",
    "log serde settings models",
    "state text topics client",
    "stores topology connect",
    "gate changes",
    "dsl runtime",
    "upgrade",
    "app server",
    "load sinks",
    "spark",
    "tidegate testing",
    "cli",
)
"""From the lowest to the highest. An import from a layer to a higher one is an upward import."""


@dataclass(frozen=True, slots=True, order=True)
class Import:
    """One module of the package imports another one."""

    importer: str
    imported: str
    kind: str
    """`top`, `lazy` (inside a function) or `typing` (inside `if TYPE_CHECKING`)."""

    def __str__(self) -> str:
        return f"{self.importer} -> {self.imported}" + ("" if self.kind == "top" else f" ({self.kind})")


class _Visitor(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: list[tuple[str, list[str], str]] = []
        self._kind = "top"

    def _within(self, kind: str, nodes: Iterable[ast.AST]) -> None:
        before, self._kind = self._kind, kind
        for node in nodes:
            self.visit(node)
        self._kind = before

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._within("lazy", node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._within("lazy", node.body)

    def visit_If(self, node: ast.If) -> None:
        checking = ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        self._within("typing" if checking else self._kind, node.body)
        self._within(self._kind, node.orelse)

    def visit_Import(self, node: ast.Import) -> None:
        self.found.extend((alias.name, [], self._kind) for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            raise ValueError(f"relative import in line {node.lineno}: this tree has absolute ones only")
        self.found.append((node.module or "", [alias.name for alias in node.names], self._kind))


def statements(path: Path) -> list[tuple[str, list[str], str]]:
    """All imports of a file: module, names taken from it, kind."""
    visitor = _Visitor()
    visitor.visit(ast.parse(path.read_text()))
    return visitor.found


def modules(source: Path) -> dict[str, Path]:
    """Every module below `source`, without the leading `tidegate.`; the package itself is `tidegate`."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name or "tidegate"] = path
    return found


def imports(source: Path) -> Iterator[Import]:
    """All imports between modules of the package, most exact target first found."""
    known = modules(source)
    for importer, path in known.items():
        for module, names, kind in statements(path):
            if module != "tidegate" and not module.startswith("tidegate."):
                continue
            inner = module.removeprefix("tidegate").removeprefix(".")
            for target in _targets(inner, names, known):
                yield Import(importer, target, kind)


def _targets(inner: str, names: list[str], known: Mapping[str, Path]) -> Iterator[str]:
    found = set()
    for name in names:
        full = f"{inner}.{name}" if inner else name
        found.add(full if full in known else inner or "tidegate")
    yield from sorted(found) if names else [inner or "tidegate"]


def package(module: str) -> str:
    """The package of a module: its first part. `python -m tidegate` is the command line."""
    first = module.split(".", maxsplit=1)[0]
    return "cli" if first == "__main__" else first


Graph = dict[str, dict[str, list[Import]]]


def package_graph(found: Iterable[Import]) -> Graph:
    """Imports between packages."""
    graph: Graph = defaultdict(lambda: defaultdict(list))
    for one in found:
        if package(one.importer) != package(one.imported):
            graph[package(one.importer)][package(one.imported)].append(one)
    return graph


def room_graph(found: Iterable[Import], name: str) -> Graph:
    """Imports between the rooms of one package: its folders, and `shared` for the files beside them."""
    inside = [one for one in found if package(one.importer) == package(one.imported) == name]
    ends = {end for one in inside for end in (one.importer, one.imported)}
    folders = {end.split(".")[1] for end in ends if end.count(".") > 1}

    def room(module: str) -> str:
        second = module.split(".")[1]
        return second if second in folders else "shared"

    graph: Graph = defaultdict(lambda: defaultdict(list))
    for one in inside:
        if room(one.importer) != room(one.imported):
            graph[room(one.importer)][room(one.imported)].append(one)
    return graph


def edges(graph: Graph, *kinds: str) -> dict[str, set[str]]:
    """What imports what, by imports of these kinds."""
    return {
        importer: {target for target, found in targets.items() if any(one.kind in kinds for one in found)}
        for importer, targets in graph.items()
    }


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Sets of two or more nodes that reach each other, each sorted."""
    reached = {node: _reached(graph, node) for node in graph}
    found = {
        tuple(sorted(other for other in reached[node] if node in reached.get(other, ())))
        for node in graph
        if node in reached[node]
    }
    return sorted(list(one) for one in found)


def _reached(graph: Mapping[str, Iterable[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph.get(start, ()))
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend(graph.get(node, ()))
    return seen


def reduction(graph: Mapping[str, Iterable[str]]) -> set[tuple[str, str]]:
    """The edges of a graph without circles that no longer path replaces: its transitive reduction."""
    return {
        (node, target)
        for node, targets in graph.items()
        for target in targets
        if not any(target in _reached(graph, other) for other in targets if other != target)
    }


def upward(found: Iterable[Import]) -> list[Import]:
    """Imports from a layer to a higher one. Files that are in no layer (any more) are left out."""
    level = {name: number for number, layer in enumerate(LAYERS) for name in layer.split()}
    return sorted(
        one
        for one in found
        if level.get(package(one.importer), len(LAYERS)) < level.get(package(one.imported), -1)
    )


def _extracted(revision: str, folder: str) -> Path:
    archive = subprocess.run(
        ["git", "archive", revision, "src/tidegate"], cwd=ROOT, check=True, capture_output=True
    )
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return Path(folder) / "src" / "tidegate"


def _print(graph: Graph) -> None:
    for importer in sorted(graph):
        targets = []
        for target, found in sorted(graph[importer].items()):
            kinds = Counter(one.kind for one in found)
            extra = "".join(f", {kinds[kind]} {kind}" for kind in ("lazy", "typing") if kinds[kind])
            targets.append(f"{target} ({len(found)}{extra})")
        print(f"  {importer} -> {', '.join(targets)}")
    _print_circles("circles of imports when a module is loaded", edges(graph, "top"))
    _print_circles("circles, lazy and typing imports counted", edges(graph, "top", "lazy", "typing"))


def _print_circles(title: str, graph: Mapping[str, Iterable[str]]) -> None:
    found = circles(graph)
    print(f"{title}: {len(found)}")
    for one in found:
        print(f"  {' <-> '.join(one)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rev", help="a commit instead of the working tree")
    parser.add_argument("--room", help="the rooms of this package instead of the packages")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = _extracted(options.rev, folder) if options.rev else ROOT / "src" / "tidegate"
        found = list(imports(source))
    if options.room:
        print(f"rooms of {options.room}, imports between them:")
        _print(room_graph(found, options.room))
        return
    print("packages, imports between them:")
    _print(package_graph(found))
    wrong = upward(found)
    print(f"upward imports: {len(wrong)}")
    for one in wrong:
        print(f"  {one}")
    downward = package_graph(one for one in found if one not in wrong)
    _print_circles("circles without upward imports", edges(downward, "top", "lazy", "typing"))


if __name__ == "__main__":
    main()
