"""A small project of several modules and packages, with a root for each way to reach other code."""

from __future__ import annotations

SHOP = {
    "limits.json": '{"most": 100, "least": 1}',
    "main.py": '''
"""The app."""
import functools
from tidegate import App, Topic

import shop.catalog
from shop import discount, tables as t
from shop.chain import first as start
from shop.closures import BY_LOOP, Scale, bounded, pair
from shop.registry import dispatch
from shop.types import Event, Order, Size
import shop.plugins
import shop.patches

app = App("shop")
ORDERS = Topic("orders", Order)


def total(order):
    """Add up an order."""
    cents = start(order.cents)
    return discount(cents)


def table(value):
    return t.look_up(value)


bound = bounded(7)
scaled = functools.partial(t.scale, 3, by=2)
scale = Scale(4)
method = Scale(5).apply
one, two = pair
looped = BY_LOOP[1]


def rescaled(value):
    return scaled(value)


def sized(value):
    return Size(value).label()


def registered(name, value):
    return dispatch(name, value)


app.stream(ORDERS).map(total)
app.stream(ORDERS).map(lambda order: shop.catalog.unrelated(order))
''',
    "shop/__init__.py": "from .prices import discount\n",
    "shop/prices.py": """
from shop.rules.vat import VAT, round_up as up

MINIMUM = 5


def discount(cents, percent=10):
    # a tenth
    return max(MINIMUM, up(cents * (100 - percent) // 100) + VAT)


def unused(value):
    local = value + 1
    return local
""",
    "shop/rules/__init__.py": "",
    "shop/rules/vat.py": """
VAT = 19


def round_up(value):
    return value + value % 2
""",
    "shop/chain.py": """
import logging

from . import deep

log = logging.getLogger(__name__)


def first(value):
    log.debug("first")
    return second(value) + 1


def second(value):
    return third(value) * 2


def third(value):
    return deep.fourth(value)
""",
    "shop/deep.py": """
def fourth(value):
    return value - 3
""",
    "shop/tables.py": """
import json
import re
from pathlib import Path

LIMITS = json.loads((Path(__file__).parents[1] / "limits.json").read_text())
SKIPPED = {word.strip() for word in ("the ", "a ", "of ", "to ", "in ")}
WORD = re.compile(r"[a-z]+", re.IGNORECASE)
BY_NAME = {"double": lambda value: value * 2, "square": lambda value: value ** 2}

try:
    from shop.rules.vat import VAT as RATE
except ImportError:
    RATE = 0


def look_up(value):
    match value:
        case str():
            return [word.upper() for word in WORD.findall(value) if word not in SKIPPED]
        case {"name": name, "value": inner}:
            return BY_NAME[name](inner)
        case int():
            return min(LIMITS["most"], value) + RATE
    return f"<{value!r:>10}>"


def scale(factor, value, by=1):
    return factor * value // by
""",
    "shop/closures.py": """
import functools


def logged(prefix):
    def around(function):
        @functools.wraps(function)
        def wrapper(*args):
            return f"{prefix}{function(*args)}"
        return wrapper
    return around


def bounded(limit):
    def inner(value):
        return min(value, limit)
    return inner


class Base:
    offset = 1

    def apply(self, value):
        return value * self.rate + self.offset


class Mixin:
    def __call__(self, value):
        return self.apply(value) + self.extra

    @property
    def extra(self):
        return 2


class Scale(Mixin, Base):
    def __init__(self, rate):
        self.rate = rate


pair = lambda value: value + 1, lambda value: value + 2
BY_LOOP = [lambda value, step=step: value + step for step in range(3)]


@logged("cents ")
def shown(value):
    return value


@functools.lru_cache
def cached(value):
    return value * 3


async def awaited(value):
    return value + 4


def counted(value):
    yield value
    yield from (one for one in range(value) if one % 2)


async def waits(value):
    return await awaited(value)
""",
    "shop/types.py": '''
import enum
from dataclasses import dataclass
from functools import singledispatch
from typing import overload

from msgspec import Struct
from tidegate import Settings, operational


class Named(type):
    def __new__(cls, name, bases, namespace):
        namespace["kind"] = name.lower()
        return super().__new__(cls, name, bases, namespace)


class Thing(metaclass=Named):
    weight = 1


class Order(Struct, tag="order", frozen=True):
    """An order."""
    id: int
    cents: int = 0


def cents(order):
    return order.cents * 100


class Event(Struct, frozen=True):
    order: Order
    source: "Source"


@dataclass
class Source:
    name: str = "web"


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2

    def label(self):
        return self.name.lower()


@singledispatch
def area(shape):
    return 0


@area.register
def _(shape: int):
    return shape * shape


@overload
def doubled(value: int) -> int: ...
@overload
def doubled(value: str) -> str: ...
def doubled(value):
    return value * 2


class Config(Settings):
    least: int = 0
    pager: str = operational("")


def above(config):
    return lambda value: value >= config.least


configured = above(Config(least=0))
''',
    "shop/registry.py": """
HANDLERS = {}


def register(name):
    def add(function):
        HANDLERS[name] = function
        return function
    return add


def dispatch(name, value):
    return HANDLERS[name](value)
""",
    "shop/plugins.py": """
from shop.registry import register


@register("plus")
def plus(value):
    return value + 1
""",
    "shop/patches.py": """
from shop import targets


def replacement(value):
    return value * 100


targets.patched = replacement
targets.Patched.factor = 6
""",
    "shop/targets.py": """
def patched(value):
    return value


class Patched:
    factor = 2

    def times(self, value):
        return self.factor * value


def calls_patched(value):
    return patched(value)
""",
    "shop/catalog.py": '''
"""Another component: nothing of it is used by the roots."""
COLOURS = ["red"]


def unrelated(value):
    renamed = value
    return renamed


class Unrelated:
    pass
''',
}
