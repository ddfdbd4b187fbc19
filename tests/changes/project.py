"""A small project of several modules on disk, and what an edit of it changes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.changes.versions import counts

from tidegate.changes.changes import Changes
from tidegate.changes.compare import compare
from tidegate.load import load_app
from tidegate.topology.code import Code, CodeEntry
from tidegate.topology.generations import continued
from tidegate.topology.identity import identified
from tidegate.topology.manifest import Manifest, make_manifest

PACKAGE = "edited_shop"
FILES = {
    "__init__.py": "",
    "topics.py": """\
from msgspec import Struct
from tidegate import TableTopic, Topic

class Order(Struct, frozen=True):
    customer: str
    cents: int
    at: int = 0

def time_of(order: Order) -> int:
    return order.at

ORDERS = Topic("orders", Order, timestamp=time_of)
RETURNS = Topic("returns", Order)
TOTALS = TableTopic("totals", int)
VISITS, PAGES, ALL = Topic("visits", str), TableTopic("pages", int), TableTopic("all", int)
""",
    "pricing/__init__.py": """\
from edited_shop.pricing.rules import net
""",
    "pricing/rules.py": """\
RATE = 3

def net(cents: int) -> int:
    return cents - fee(cents)

def fee(cents: int) -> int:
    part = cents * RATE
    return part // 100

def unrelated(number: int) -> int:
    doubled = number * 2
    return doubled
""",
    "app.py": """\
from edited_shop.pricing import net
from edited_shop.topics import ALL, ORDERS, PAGES, RETURNS, TOTALS, VISITS, Order
from tidegate import App, Context, Record, Settings, operational, stores

class Config(Settings):
    least: int = 0
    note: str = operational("")

SEEN = stores.window("seen", int, size=10, retention=1000)

def customer(order: Order) -> str:
    return order.customer

def add(total: int, order: Order) -> int:
    return total + net(order.cents)

def look(record: Record[str, str], ctx: Context[str, str]) -> None:
    ctx.store(SEEN)
    ctx.forward(record)

def app(config: Config) -> App:
    made = App("shop")
    orders = made.stream(ORDERS)
    orders.group_by("by-customer", customer).aggregate("sums", int, add).to(TOTALS)
    visits = made.stream(VISITS).process("look", look, stores=[SEEN])
    visits.repartition("again").count("visited").to(PAGES)
    return made
""",
}


class Project:
    """The project in a folder that can be imported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / PACKAGE
        for name, text in FILES.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        text = path.read_text()
        assert text.count(old) == 1, f"{old!r} is not once in {name}"
        path.write_text(text.replace(old, new))

    def manifest(self, known: Manifest | None = None, **settings: Any) -> tuple[Manifest, CodeEntry]:
        """The manifest of the app as a new process would make it."""
        forget()
        topology = load_app(f"{PACKAGE}.app:app", settings).build()
        code = Code()
        if known is None:
            return make_manifest(topology, counts(topology), code=code), code.entry()
        topology = identified(topology, known)
        made = make_manifest(topology, counts(topology), 2, known.internal_partitions, code=code)
        return continued(made, known), code.entry()

    def changes(self, before: tuple[Manifest, CodeEntry], **settings: Any) -> Changes:
        """What differs from a former state of the project."""
        after, code = self.manifest(before[0], **settings)
        return compare(before[0], after, before[1], code)


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    importlib.invalidate_caches()


@contextmanager
def project(folder: Path) -> Iterator[Project]:
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(folder))
    try:
        yield Project(folder)
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = written
        forget()
