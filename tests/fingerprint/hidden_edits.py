"""Edits that once left a fingerprint unchanged although they change what `root(3)` returns.

Each one: the files, or the text of `main.py`; a part of `main.py`, or a file and a part of it; and what
replaces this."""

# ruff: noqa: E501 - one edit per line

from __future__ import annotations

HIDDEN: dict[str, tuple[str | dict[str, str], str | tuple[str, str], str]] = {
    "a list that a comprehension fills": (
        "L = []\nX = [L.append(n) for n in range(3)]\n\ndef root(x):\n    return sum(L) + x\n",
        "range(3)",
        "range(4)",
    ),
    "a dict that an assigned call fills": (
        "D = {}\nX = D.setdefault('n', 1)\n\ndef root(x):\n    return D['n'] + x\n",
        "'n', 1",
        "'n', 2",
    ),
    "a dict that is passed to a function": (
        "D = {}\n\ndef load(d, n):\n    d['n'] = n\n    return True\n\nOK = load(D, 1)\n\ndef root(x):\n    return D['n'] + x\n",
        "D, 1",
        "D, 2",
    ),
    "a dict that is filled through an alias": (
        "D = {}\nE = D\nE['n'] = 1\n\ndef root(x):\n    return D['n'] + x\n",
        "= 1",
        "= 2",
    ),
    "a dict that a loop over dicts fills": (
        "D = {}\nE = {}\nfor d in (D, E):\n    d['n'] = 1\n\ndef root(x):\n    return D['n'] + x\n",
        "= 1",
        "= 2",
    ),
    "a list that a metaclass fills": (
        "KNOWN = []\nclass M(type):\n    def __init__(cls, *a):\n        KNOWN.append(cls)\n\nclass A(metaclass=M):\n    n = 1\n\ndef root(x):\n    return KNOWN[0].n + x\n",
        "n = 1",
        "n = 2",
    ),
    "a list that __class_getitem__ fills": (
        "KNOWN = []\nclass M:\n    def __class_getitem__(cls, n):\n        KNOWN.append(n)\n        return n\n\nX = M[1]\n\ndef root(x):\n    return KNOWN[0] + x\n",
        "M[1]",
        "M[2]",
    ),
    "a function that is passed to the one that calls it": (
        "L = []\n\ndef apply(f):\n    f()\n\ndef fill():\n    L.append(1)\n\napply(fill)\n\ndef root(x):\n    return sum(L) + x\n",
        "append(1)",
        "append(2)",
    ),
    "a function that map calls": (
        "L = []\n\ndef fill(n):\n    L.append(n)\n\nX = list(map(fill, [1, 2]))\n\ndef root(x):\n    return sum(L) + x\n",
        "[1, 2]",
        "[1, 3]",
    ),
    "a decorator that calls its function": (
        "L = []\n\ndef once(f):\n    f()\n    return f\n\n@once\ndef fill():\n    L.append(1)\n\ndef root(x):\n    return sum(L) + x\n",
        "append(1)",
        "append(2)",
    ),
    "a function that a thread calls": (
        "import threading\nL = []\n\ndef fill():\n    L.append(1)\n\nt = threading.Thread(target=fill)\nt.start()\nt.join()\n\ndef root(x):\n    return sum(L) + x\n",
        "append(1)",
        "append(2)",
    ),
    "a dict filled under a condition on __name__": (
        "D = {}\nif __name__ != '__main__':\n    D['n'] = 1\n\ndef root(x):\n    return D['n'] + x\n",
        "= 1",
        "= 2",
    ),
    "replaced defaults": (
        "def f(x=1):\n    return x\n\ndef patch(g, n):\n    g.__defaults__ = (n,)\n    return g\n\nX = patch(f, 5)\n\ndef root(x):\n    return f() + x\n",
        "f, 5",
        "f, 6",
    ),
    "slots of two underscores": (
        "class C:\n    __slots__ = ('__n',)\n    def __init__(self, n):\n        self.__n = n\n    def get(self):\n        return self.__n\n\ndef make(c):\n    return lambda x: c.get() + x\n\nroot = make(C(1))\n",
        "C(1)",
        "C(2)",
    ),
    "the arguments of an exception": (
        "class E(Exception):\n    pass\n\ndef make(e):\n    return lambda x: e.args[0] + x\n\nroot = make(E(1))\n",
        "E(1)",
        "E(2)",
    ),
    "the length of a deque": (
        "import collections\n\ndef make(d):\n    def inner(x):\n        d.append(x)\n        d.append(x)\n        return list(d)\n    return inner\n\nroot = make(collections.deque([1, 2], maxlen=2))\n",
        "maxlen=2",
        "maxlen=3",
    ),
    "keywords of a methodcaller": (
        "import operator\nroot = (lambda f: lambda x: f(str(x) + ',;'))(operator.methodcaller('split', sep=','))\n",
        "sep=','",
        "sep=';'",
    ),
    "an attribute of a partial": (
        "import functools\n\ndef make(p):\n    return lambda x: p.by + x\n\ndef mk(n):\n    q = functools.partial(int)\n    q.by = n\n    return q\n\nroot = make(mk(1))\n",
        "mk(1)",
        "mk(2)",
    ),
    "a replaced builtin": (
        "import builtins\nbuiltins.divmod = lambda x, y: 1\n\ndef root(x):\n    return divmod(x, 2)\n",
        "y: 1",
        "y: 2",
    ),
    "a builtin that a function adds": (
        "import builtins\n\ndef install(n):\n    builtins.tax = n\n\ninstall(1)\n\ndef root(x):\n    return tax + x\n",
        "install(1)",
        "install(2)",
    ),
    "a library that a function patches, its argument": (
        "import textwrap\n\ndef install(n):\n    textwrap.fill = lambda x: x + n\n\ninstall(1)\n\ndef root(x):\n    return textwrap.fill(x)\n",
        "install(1)",
        "install(2)",
    ),
    "a library that a function patches": (
        "import textwrap\n\ndef install():\n    textwrap.fill = lambda x: x + 1\n\ninstall()\n\ndef root(x):\n    return textwrap.fill(x)\n",
        "x + 1",
        "x + 2",
    ),
    "a constant of a library that a function sets": (
        "import math\n\ndef install(n):\n    math.pi = n\n\ninstall(1)\n\ndef root(x):\n    return math.pi + x\n",
        "install(1)",
        "install(2)",
    ),
    "the context of decimal in a function": (
        "import decimal\n\ndef install(n):\n    decimal.getcontext().prec = n\n\ninstall(5)\n\ndef root(x):\n    return decimal.Decimal(1) / x\n",
        "install(5)",
        "install(6)",
    ),
    "an attribute of sys": (
        "import sys\nsys.maxsize = 5\n\ndef root(x):\n    return sys.maxsize + x\n",
        "= 5",
        "= 6",
    ),
    "a class with a method named counted": (
        "class C:\n    def __init__(self, n):\n        self.n = n\n    def counted(self):\n        return 0\n\ndef make(c):\n    return lambda x: c.n + x\n\nroot = make(C(1))\n",
        "C(1)",
        "C(2)",
    ),
    "a method of settings": (
        "import tidegate\n\nclass S(tidegate.Settings):\n    a: int = 1\n    def get(self):\n        return self.a + 1\n\ndef make(c):\n    return lambda x: c.get() + x\n\nroot = make(S())\n",
        "self.a + 1",
        "self.a + 2",
    ),
    "more arguments of getLogger": (
        "def getLogger(name, n):\n    return n\n\ndef root(x):\n    return getLogger(__name__, 1) + x\n",
        "__name__, 1",
        "__name__, 2",
    ),
    "a package that __import__ returns": (
        {
            "main.py": "def root(x):\n    return __import__('pkg.a').N + x\n",
            "pkg/__init__.py": "N = 1\n",
            "pkg/a.py": "",
        },
        ("pkg/__init__.py", "N = 1"),
        "N = 2",
    ),
    "the globals of a function": (
        "OTHER = 1\n\ndef f(): pass\n\ndef root(x):\n    return f.__globals__['OTHER'] + x\n",
        "OTHER = 1",
        "OTHER = 2",
    ),
    "a module that replaces itself by an object": (
        {
            "helper.py": "import sys\n\nclass H:\n    n = 1\n\nsys.modules[__name__] = H()\n",
            "main.py": "import helper\n\ndef root(x):\n    return helper.n + x\n",
        },
        ("helper.py", "n = 1"),
        "n = 2",
    ),
    "a module that replaces itself by another module": (
        {
            "helper.py": "import sys, types\n\nclass H(types.ModuleType):\n    n = 1\n\nsys.modules[__name__] = H(__name__)\n",
            "main.py": "import helper\n\ndef root(x):\n    return helper.n + x\n",
        },
        ("helper.py", "n = 1"),
        "n = 2",
    ),
    "an attribute of a class that a function fills": (
        "class C:\n    items = []\n\ndef setup(n):\n    C.items.append(n)\n\nsetup(1)\n\ndef root(x):\n    return sum(C.items) + x\n",
        "setup(1)",
        "setup(2)",
    ),
    "an attribute of a class that an assigned call fills": (
        "class C:\n    items = []\n\nX = C.items.append(1)\n\ndef root(x):\n    return sum(C.items) + x\n",
        "append(1)",
        "append(2)",
    ),
    "a function made by exec": (
        "exec('def f(x): return x + 1')\n\ndef root(x):\n    return f(x)\n",
        "x + 1",
        "x + 2",
    ),
    "a type in quotes of a functional TypedDict": (
        "import typing, msgspec\n\nclass Order(msgspec.Struct):\n    a: int = 1\n\nT = typing.TypedDict('T', {'o': 'Order'})\n\ndef root(x, t=T):\n    return msgspec.json.decode(b'{\"o\": {}}', type=t)['o'].a\n",
        "int = 1",
        "int = 2",
    ),
    "a dataclass made by a call": (
        "import dataclasses\n\ndef mk(n):\n    return dataclasses.make_dataclass('S', [('a', int, n)])\n\ndef make(s):\n    return lambda x: s().a + x\n\nroot = make(mk(1))\n",
        "mk(1)",
        "mk(2)",
    ),
    "omit_defaults of a Struct made by a call": (
        "import msgspec\n\ndef mk(n):\n    return msgspec.defstruct('S', [('a', int, 1)], omit_defaults=n)\n\ndef make(s):\n    return lambda x: (msgspec.json.encode(s()), str(s.__match_args__))\n\nroot = make(mk(True))\n",
        "mk(True)",
        "mk(False)",
    ),
    "array_like of a Struct made by a call": (
        "import msgspec\n\ndef mk(n):\n    return msgspec.defstruct('S', [('a', int, 1)], array_like=n)\n\ndef make(s):\n    return lambda x: (msgspec.json.encode(s()), str(s.__match_args__))\n\nroot = make(mk(True))\n",
        "mk(True)",
        "mk(False)",
    ),
    "the tag of a Struct made by a call": (
        "import msgspec\n\ndef mk(n):\n    return msgspec.defstruct('S', [('a', int, 1)], tag=n)\n\ndef make(s):\n    return lambda x: (msgspec.json.encode(s()), str(s.__match_args__))\n\nroot = make(mk('a'))\n",
        "mk('a')",
        "mk('b')",
    ),
    "the tag field of a Struct made by a call": (
        "import msgspec\n\ndef mk(n):\n    return msgspec.defstruct('S', [('a', int, 1)], tag_field=n, tag='z')\n\ndef make(s):\n    return lambda x: (msgspec.json.encode(s()), str(s.__match_args__))\n\nroot = make(mk('q'))\n",
        "mk('q')",
        "mk('b')",
    ),
    "the type of a field of a Struct made by a call": (
        "import msgspec\n\ndef mk(n):\n    return msgspec.defstruct('S', [('a', n)])\n\ndef make(s):\n    return lambda x: msgspec.json.decode(b'{\"a\": 1}', type=s)\n\nroot = make(mk(int))\n",
        "mk(int)",
        "mk(float)",
    ),
    "forbid_unknown_fields of a Struct made by a call": (
        "import msgspec\n\ndef mk(n):\n    return msgspec.defstruct('S', [('a', int)], forbid_unknown_fields=n)\n\ndef make(s):\n    return lambda x: msgspec.json.decode(b'{\"a\": 1, \"b\": 2}', type=s)\n\nroot = make(mk(True))\n",
        "mk(True)",
        "mk(False)",
    ),
    "a special attribute of a class made by a call": (
        "def mk(n):\n    return type('S', (), {'__n__': n})\n\ndef make(s):\n    return lambda x: s().__n__ + x\n\nroot = make(mk(1))\n",
        "mk(1)",
        "mk(2)",
    ),
    "the kind of a path": (
        "import pathlib\n\ndef make(c):\n    return lambda x: str(c)\n\nroot = make(pathlib.PureWindowsPath('a/b'))\n",
        "make(pathlib.PureWindowsPath('a/b'))",
        "make(pathlib.PurePosixPath('a/b'))",
    ),
    "the order of an array in memory": (
        "import numpy as np\n\ndef make(c):\n    return lambda x: c.ravel(order='K')\n\nroot = make(np.array([[1, 2],[3,4]], order='C'))\n",
        "make(np.array([[1, 2],[3,4]], order='C'))",
        "make(np.array([[1, 2],[3,4]], order='F'))",
    ),
    "the class of bytes": (
        "\ndef make(c):\n    return lambda x: type(c).__name__\n\nroot = make(bytearray(b'a'))\n",
        "make(bytearray(b'a'))",
        "make(memoryview(b'a'))",
    ),
    "an IP address": (
        "import ipaddress\n\ndef make(c):\n    return lambda x: str(c)\n\nroot = make(ipaddress.ip_address('1.1.1.1'))\n",
        "make(ipaddress.ip_address('1.1.1.1'))",
        "make(ipaddress.ip_address('1.1.1.2'))",
    ),
    "the bounds of an annotated type": (
        "import typing, msgspec\n\ndef make(c):\n    return lambda x: msgspec.convert(x, c)\n\nroot = make(typing.Annotated[int, msgspec.Meta(gt=1)])\n",
        "make(typing.Annotated[int, msgspec.Meta(gt=1)])",
        "make(typing.Annotated[int, msgspec.Meta(gt=10)])",
    ),
    "a subclass that a function registers": (
        "import abc\n\nclass A(abc.ABC):\n    pass\n\ndef setup():\n    A.register(int)\n\nsetup()\n\ndef root(x):\n    return isinstance(x, A)\n",
        "A.register(int)",
        "A.register(str)",
    ),
    "a field of a number of the project's own class": (
        "import decimal\n\nclass R(decimal.Decimal):\n    pass\n\ndef mk(n):\n    r = R(1)\n    r.n = n\n    return r\n\ndef make(c):\n    return lambda x: c.n\n\nroot = make(mk(1))\n",
        "mk(1)",
        "mk(2)",
    ),
    "a date with a repr of its own": (
        "import datetime\n\nclass R(datetime.date):\n    def __repr__(self):\n        return 'x'\n\ndef make(c):\n    return lambda x: c.day\n\nroot = make(R(2020,1,1))\n",
        "R(2020,1,1)",
        "R(2020,1,2)",
    ),
    "a slot of a list": (
        "class L(list):\n    __slots__ = ('n',)\n\ndef mk(n):\n    r = L()\n    r.n = n\n    return r\n\ndef make(c):\n    return lambda x: c.n\n\nroot = make(mk(1))\n",
        "mk(1)",
        "mk(2)",
    ),
    "the type of a serde in a closure": (
        "import msgspec\nfrom tidegate.serde import Json\n\nclass O(msgspec.Struct):\n    a: int = 1\n\ndef make(s):\n    return lambda x: s.decode(b'{}').a\n\nroot = make(Json[O]())\n",
        "int = 1",
        "int = 2",
    ),
    "the type of a topic in a closure": (
        "import msgspec\nfrom tidegate import Topic\n\nclass O(msgspec.Struct):\n    a: int = 1\n\ndef make(s):\n    return lambda x: s.value_serde.decode(b'{}').a\n\nroot = make(Topic('o', O))\n",
        "int = 1",
        "int = 2",
    ),
    "a time zone of the project's own class": (
        "import datetime\n\nclass Z(datetime.tzinfo):\n    def utcoffset(self, d):\n        return datetime.timedelta(hours=1)\n\ndef make(d):\n    return lambda x: str(d.utcoffset())\n\nroot = make(datetime.datetime(2020, 1, 1, tzinfo=Z()))\n",
        "hours=1",
        "hours=2",
    ),
    "replaced keyword defaults": (
        "def f(*, x=1):\n    return x\n\ndef patch(g, n):\n    g.__kwdefaults__ = {'x': n}\n    return g\n\nX = patch(f, 5)\n\ndef root(x):\n    return f() + x\n",
        "f, 5",
        "f, 6",
    ),
    "replaced defaults of a method": (
        "class C:\n    def f(self, x=1):\n        return x\n\ndef patch(g, n):\n    g.__defaults__ = (n,)\n    return g\n\nX = patch(C.f, 5)\n\ndef root(x):\n    return C().f() + x\n",
        "f, 5",
        "f, 6",
    ),
    "a default that a call at import fills": (
        "def f(n, l=[]):\n    l.append(n)\n    return sum(l)\n\nX = f(1)\n\ndef root(x):\n    return f(x)\n",
        "f(1)",
        "f(2)",
    ),
    "a module that replaces a class of its package": (
        {
            "main.py": "import pkg.sub\n\ndef root(x):\n    return pkg.sub.N + x\n",
            "pkg/__init__.py": "class sub:\n    N = 9\n",
            "pkg/sub.py": "N = 1\n",
        },
        ("pkg/sub.py", "N = 1"),
        "N = 2",
    ),
    "a submodule that is not imported any more": (
        {
            "main.py": "import pkg.sub\n\ndef root(x):\n    return pkg.sub.h(x)\n",
            "pkg/__init__.py": "",
            "pkg/sub.py": "def h(x):\n    return x\n",
        },
        ("main.py", "import pkg.sub"),
        "import pkg",
    ),
    "the context of decimal in a variable of a function": (
        "import decimal\n\ndef setup():\n    c = decimal.getcontext()\n    c.prec = 5\n\nsetup()\n\ndef root(x):\n    return decimal.Decimal(1) / x\n",
        "prec = 5",
        "prec = 6",
    ),
    "the context of decimal in a variable": (
        "import decimal\nc = decimal.getcontext()\nc.prec = 5\n\ndef root(x):\n    return decimal.Decimal(1) / x\n",
        "prec = 5",
        "prec = 6",
    ),
    "an option of a library that an assigned call sets": (
        "import numpy as np\n_ = np.seterr(all='raise')\n\ndef root(x):\n    return np.float64(1) / np.float64(0)\n",
        "all='raise'",
        "all='ignore'",
    ),
    "an option of a library that a function sets": (
        "import numpy as np\n\ndef setup(n):\n    return np.set_printoptions(precision=n)\n\n_ = setup(3)\n\ndef root(x):\n    return str(np.array([1/3]))\n",
        "setup(3)",
        "setup(4)",
    ),
    "a library that a loop patches": (
        "import textwrap\nfor name in ('fill',):\n    setattr(textwrap, name, lambda x: 1)\n\ndef root(x):\n    return textwrap.fill(x)\n",
        "x: 1",
        "x: 2",
    ),
    "an accessor that a decorator registers": (
        "import pandas as pd\n\n@pd.api.extensions.register_series_accessor('adv')\nclass A:\n    def __init__(self, s):\n        self.s = s\n    def n(self):\n        return 1\n\ndef root(x):\n    return pd.Series([1]).adv.n()\n",
        "return 1",
        "return 2",
    ),
    "a codec": (
        "import codecs\n\ndef search(n):\n    if n == 'adv':\n        return codecs.CodecInfo(lambda s, e='': (b'1', 1), None, name='adv')\n\ncodecs.register(search)\n\ndef root(x):\n    return 'a'.encode('adv')\n",
        "b'1'",
        "b'2'",
    ),
}
