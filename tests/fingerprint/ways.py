"""Ways in which one piece of code depends on another: a module, a part of it, and what replaces this.

Each edit changes what `root(3)` returns. `helper:` marks an edit of the module `helper`."""

# ruff: noqa: E501 - one way per line

from __future__ import annotations

WAYS: dict[str, tuple[str, str, str]] = {
    "a default that a function computes": (
        "def load():\n    return 1\n\ndef root(x, by=load()):\n    return x + by\n",
        "return 1",
        "return 2",
    ),
    "a keyword default": ("N = 1\n\ndef root(x, *, by=N * 2):\n    return x + by\n", "N = 1", "N = 2"),
    "a constant that a called function changes": (
        "N = 1\n\ndef configure(n):\n    global N\n    N = n\n\nconfigure(5)\n\ndef root(x):\n    return x + N\n",
        "configure(5)",
        "configure(6)",
    ),
    "a list that is filled in a loop": (
        "L = []\nfor n in range(3):\n    L.append(n)\n\ndef root(x):\n    return sum(L) + x\n",
        "range(3)",
        "range(4)",
    ),
    "a list that a called function fills": (
        "L = []\n\ndef fill(n):\n    L.append(n)\n\nfill(1)\n\ndef root(x):\n    return sum(L) + x\n",
        "fill(1)",
        "fill(2)",
    ),
    "the order of two calls at import": (
        "L = []\nL.append(1)\nL.append(2)\n\ndef root(x):\n    return L[0] + x\n",
        "L.append(1)\nL.append(2)",
        "L.append(2)\nL.append(1)",
    ),
    "the order of two definitions": (
        "def inner(x):\n    return 1\n\ndef inner(x):\n    return 2\n\ndef root(x):\n    return inner(x)\n",
        "return 1\n\ndef inner(x):\n    return 2",
        "return 2\n\ndef inner(x):\n    return 1",
    ),
    "an attribute of a function": (
        "def inner(x):\n    return inner.by + x\n\ninner.by = 1\n\ndef root(x):\n    return inner(x)\n",
        "by = 1",
        "by = 2",
    ),
    "attributes set in a loop": (
        "class C:\n    pass\n\nfor name in ('a',):\n    setattr(C, name, 1)\n\ndef root(x):\n    return C.a + x\n",
        ", 1)",
        ", 2)",
    ),
    "an assignment in a condition": (
        "import sys\nif sys.version_info:\n    N = 1\nelse:\n    N = 0\n\ndef root(x):\n    return x + N\n",
        "N = 1",
        "N = 2",
    ),
    "a name bound by try": (
        "try:\n    import gone_module\nexcept ImportError:\n    N = 1\n\ndef root(x):\n    return x + N\n",
        "N = 1",
        "N = 2",
    ),
    "an augmented assignment": ("N = 1\nN += 1\n\ndef root(x):\n    return x + N\n", "N += 1", "N += 2"),
    "a walrus at the top": ("if (N := 1):\n    pass\n\ndef root(x):\n    return x + N\n", "N := 1", "N := 2"),
    "nonlocal state": (
        "def make():\n    n = 1\n    def inner(x):\n        nonlocal n\n        n += 1\n        return n + x\n    return inner\n\nroot = make()\n",
        "n += 1",
        "n += 2",
    ),
    "a function in a closure": (
        "def one(x):\n    return x + 1\n\ndef make(f):\n    return lambda x: f(x)\n\nroot = make(one)\n",
        "x + 1",
        "x + 2",
    ),
    "an object in a closure": (
        "class C:\n    def __init__(self, n):\n        self.n = [n]\n\ndef make(c):\n    return lambda x: c.n[0] + x\n\nroot = make(C(1))\n",
        "C(1)",
        "C(2)",
    ),
    "a method of an object in a closure": (
        "class C:\n    def get(self):\n        return 1\n\ndef make(c):\n    return lambda x: c.get() + x\n\nroot = make(C())\n",
        "return 1",
        "return 2",
    ),
    "slots": (
        "class C:\n    __slots__ = ('n',)\n    def __init__(self, n):\n        self.n = n\n\nc = C(1)\n\ndef root(x):\n    return c.n + x\n",
        "C(1)",
        "C(2)",
    ),
    "a static method": (
        "class C:\n    @staticmethod\n    def get(x):\n        return x + 1\n\nroot = C.get\n",
        "x + 1",
        "x + 2",
    ),
    "a class method": (
        "class C:\n    n = 1\n    @classmethod\n    def get(cls, x):\n        return x + cls.n\n\nroot = C.get\n",
        "n = 1",
        "n = 2",
    ),
    "a cached property": (
        "import functools\n\nclass C:\n    @functools.cached_property\n    def n(self):\n        return 1\n\ndef root(x):\n    return C().n + x\n",
        "return 1",
        "return 2",
    ),
    "a descriptor": (
        "class D:\n    def __get__(self, one, kind):\n        return 1\n\nclass C:\n    n = D()\n\ndef root(x):\n    return C().n + x\n",
        "return 1",
        "return 2",
    ),
    "a decorator of a method": (
        "class C:\n    @staticmethod\n    def get(*all):\n        return len(all)\n\ndef root(x):\n    return C().get(x)\n",
        "@staticmethod",
        "@classmethod",
    ),
    "one object that two functions share": (
        "import helper\nSTATE = []\n\ndef one(x):\n    STATE.append(x)\n    return helper.put(x)\n\ndef root(x):\n    return one(x) + len(helper.STATE)\n",
        "helper.STATE",
        "STATE",
    ),
    "an attribute that a called function sets on a class": (
        "class C:\n    pass\n\ndef set_up(n):\n    C.a = n\n\nset_up(1)\n\ndef root(x):\n    return C.a + x\n",
        "set_up(1)",
        "set_up(2)",
    ),
    "an attribute that a called function sets on a function": (
        "def inner(x):\n    return inner.by + x\n\ndef set_up(n):\n    inner.by = n\n\nset_up(1)\n\ndef root(x):\n    return inner(x)\n",
        "set_up(1)",
        "set_up(2)",
    ),
    "a function that a called function replaces": (
        "import helper\n\ndef other(x):\n    return 8\n\ndef set_up():\n    helper.run = other\n\nset_up()\n\ndef root(x):\n    return helper.run(x)\n",
        "return 8",
        "return 9",
    ),
    "two functions of one name, exchanged": (
        "from helper import run as a\nfrom other import run as b\n\ndef root(x):\n    return a(x) - b(x)\n",
        "from helper import run as a\nfrom other import run as b",
        "from helper import run as b\nfrom other import run as a",
    ),
    "a dict that a function fills whose result is kept": (
        "D = {}\n\ndef load(n):\n    D['n'] = n\n    return True\n\nLOADED = load(1)\n\ndef root(x):\n    return D['n'] + x\n",
        "load(1)",
        "load(2)",
    ),
    "what a module does that a function imports late": (
        "def root(x):\n    from helper import listed\n    return listed(x)\n",
        "helper:append(4)",
        "helper:append(5)",
    ),
    "super": (
        "class A:\n    def get(self, x):\n        return x + 1\n\nclass B(A):\n    def get(self, x):\n        return super().get(x)\n\nroot = B().get\n",
        "x + 1",
        "x + 2",
    ),
    "a class made by a call": (
        "C = type('C', (), {'n': 1})\n\ndef root(x):\n    return C.n + x\n",
        "'n': 1",
        "'n': 2",
    ),
    "a named tuple": (
        "from collections import namedtuple\nP = namedtuple('P', 'a b', defaults=[1, 2])\n\ndef root(x):\n    return P().a + x\n",
        "[1, 2]",
        "[2, 1]",
    ),
    "a default factory": (
        "from dataclasses import dataclass, field\n\ndef made():\n    return 1\n\n@dataclass\nclass C:\n    n: int = field(default_factory=made)\n\ndef root(x):\n    return C().n + x\n",
        "return 1",
        "return 2",
    ),
    "a subclass that registers itself": (
        "KNOWN = []\n\nclass Base:\n    def __init_subclass__(cls):\n        KNOWN.append(cls)\n\nclass One(Base):\n    n = 1\n\ndef root(x):\n    return KNOWN[0].n + x\n",
        "n = 1",
        "n = 2",
    ),
    "a subclass that is searched for": (
        "class Base:\n    pass\n\nclass One(Base):\n    n = 1\n\ndef root(x):\n    return Base.__subclasses__()[0].n + x\n",
        "n = 1",
        "n = 2",
    ),
    "a decorator class": (
        "class deco:\n    def __init__(self, f):\n        self.f = f\n    def __call__(self, x):\n        return self.f(x) + 1\n\n@deco\ndef inner(x):\n    return x\n\ndef root(x):\n    return inner(x)\n",
        "+ 1",
        "+ 2",
    ),
    "a context manager": (
        "from contextlib import contextmanager\n\n@contextmanager\ndef opened():\n    yield 1\n\ndef root(x):\n    with opened() as n:\n        return n + x\n",
        "yield 1",
        "yield 2",
    ),
    "getattr with a name in quotes": (
        "class C:\n    n = 1\n\ndef root(x):\n    return getattr(C, 'n') + x\n",
        "n = 1",
        "n = 2",
    ),
    "getattr with a variable": (
        "import sys\nOTHER = 1\nNAMES = ['OTHER']\n\ndef root(x):\n    return getattr(sys.modules[__name__], NAMES[0]) + x\n",
        "OTHER = 1",
        "OTHER = 2",
    ),
    "eval": ("OTHER = 1\n\ndef root(x):\n    return eval('OT' + 'HER') + x\n", "OTHER = 1", "OTHER = 2"),
    "globals": ("OTHER = 1\n\ndef root(x):\n    return globals()['OTHER'] + x\n", "OTHER = 1", "OTHER = 2"),
    "a module that is imported by name": (
        "import importlib\nimport helper\n\ndef root(x):\n    return importlib.import_module('help' + 'er').N + x\n",
        "helper:N = 1",
        "helper:N = 2",
    ),
    "a module imported by a constant name": (
        "import importlib\n\ndef root(x):\n    return importlib.import_module('helper').N + x\n",
        "helper:N = 1",
        "helper:N = 2",
    ),
    "a module as a value": (
        "import helper\nMODULES = [helper]\n\ndef root(x):\n    return MODULES[0].N + x\n",
        "helper:N = 1",
        "helper:N = 2",
    ),
    "a star import": (
        "from helper import *\n\ndef root(x):\n    return N + x\n",
        "helper:N = 1",
        "helper:N = 2",
    ),
    "a star import inside of try": (
        "try:\n    from helper import *\nexcept ImportError:\n    pass\n\ndef root(x):\n    return N + x\n",
        "helper:N = 1",
        "helper:N = 2",
    ),
    "an import inside of a function": (
        "def root(x):\n    import helper as h\n    return h.run(x)\n",
        "helper:x * 2",
        "helper:x * 3",
    ),
    "a __getattr__ of a module": (
        "import helper\n\ndef root(x):\n    return helper.late + x\n",
        "helper:return 10",
        "helper:return 11",
    ),
    "an import that is bound late": (
        "import helper\nfrom helper import N\nhelper.N = 5\n\ndef root(x):\n    return N + x\n",
        "from helper import N\nhelper.N = 5",
        "helper.N = 5\nfrom helper import N",
    ),
    "the context of decimal": (
        "import decimal\ndecimal.getcontext().prec = 5\n\ndef root(x):\n    return decimal.Decimal(1) / decimal.Decimal(x)\n",
        "prec = 5",
        "prec = 6",
    ),
    "a docstring that is data": (
        "def inner():\n    '''one'''\n\ndef root(x):\n    return inner.__doc__ * x\n",
        "'''one'''",
        "'''two'''",
    ),
    "an f-string": ("def root(x):\n    return f'{x:>{x + 1}}'\n", "x + 1", "x + 2"),
    "a set": ("S = {n for n in range(3)}\n\ndef root(x):\n    return x in S\n", "range(3)", "range(4)"),
    "the order of a computed dict": (
        "D = dict([('a', 1), ('b', 2)])\n\ndef root(x):\n    return list(D)[0]\n",
        "[('a', 1), ('b', 2)]",
        "[('b', 2), ('a', 1)]",
    ),
    "functions in a set": (
        "def one(x):\n    return x + 1\n\nS = frozenset([one])\n\ndef root(x):\n    return [f(x) for f in S]\n",
        "x + 1",
        "x + 2",
    ),
    "which function belongs to which key": (
        "def a(x):\n    return 1\n\ndef b(x):\n    return 2\n\nD = dict(zip('xy', [a, b]))\n\ndef root(x):\n    return D['x'](x)\n",
        "[a, b]",
        "[b, a]",
    ),
    "a global that a comprehension reads": (
        "N = 1\n\ndef root(x):\n    return [N for _ in range(x)]\n",
        "N = 1",
        "N = 2",
    ),
    "a class body that reads a global of the same name": (
        "n = 1\n\nclass C:\n    n = n\n\ndef root(x):\n    return C.n + x\n",
        "n = 1",
        "n = 2",
    ),
    "a nested class": (
        "class A:\n    class B:\n        n = 1\n\ndef root(x):\n    return A.B.n + x\n",
        "n = 1",
        "n = 2",
    ),
    "a class inside of a function": (
        "def make(n):\n    class C:\n        def get(self, x):\n            return n + x\n    return C()\n\nroot = make(1).get\n",
        "make(1)",
        "make(2)",
    ),
    "a method of a library that was replaced": (
        "import json\njson.dumps = lambda x: x + 1\n\ndef root(x):\n    return json.dumps(x)\n",
        "x + 1",
        "x + 2",
    ),
    "a chain of partials": (
        "from functools import partial\nroot = partial(partial(lambda a, b, x: a * b + x, 2), 3)\n",
        ", 2), 3)",
        ", 2), 4)",
    ),
    "an operator getter": (
        "import operator\nN = 1\nget = operator.itemgetter(N)\n\ndef root(x):\n    return get([x, x + 1, x + 2])\n",
        "N = 1",
        "N = 2",
    ),
    "a match on a constant of a class": (
        "class C:\n    N = 3\n\ndef root(x):\n    match x:\n        case C.N:\n            return 1\n    return 0\n",
        "N = 3",
        "N = 4",
    ),
    "a handler of errors": (
        "class Wrong(Exception):\n    n = 1\n\ndef root(x):\n    try:\n        raise Wrong\n    except Wrong as error:\n        return error.n\n",
        "n = 1",
        "n = 2",
    ),
    "the body of a lambda that is passed on": (
        "class C:\n    def __init__(self, f):\n        self.f = f\n\nc = C(lambda x: x + 1)\n\ndef root(x):\n    return c.f(x)\n",
        "x + 1",
        "x + 2",
    ),
}
HELPER = "LIST = []\nLIST.append(4)\n\ndef listed(x):\n    return x + sum(LIST)\n\nSTATE = []\n\ndef put(x):\n    STATE.extend([x, x])\n    return x\n\nN = 1\n\ndef run(x):\n    return x * 2\n\ndef __getattr__(name):\n    if name == 'late':\n        return 10\n    raise AttributeError(name)\n"
