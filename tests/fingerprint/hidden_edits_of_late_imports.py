"""Like `hidden_edits`, of a module that is imported only inside of a function, or of what it imports."""

# ruff: noqa: E501 - one edit per line

from __future__ import annotations

LATE: dict[str, tuple[dict[str, str], tuple[str, str], str]] = {
    "an import that comes too late": (
        {
            "main.py": "def root(x):\n    from late import part\n    return part(1)\n",
            "late.py": "import functools\n\npart = functools.partial(max, 3)\n",
        },
        ("late.py", "import functools\n\npart = functools.partial(max, 3)\n"),
        "part = functools.partial(max, 3)\nimport functools\n",
    ),
    "an import that fails in the package around it": (
        {
            "main.py": "def root(x):\n    from pack.inner import h\n    return h(x)\n",
            "pack/__init__.py": "from pack.inner import f\n",
            "pack/inner.py": "def h(x):\n    return x\n",
        },
        ("pack/__init__.py", "import f"),
        "import h",
    ),
    "an import of no module": (
        {
            "main.py": "def root(x):\n    from late import h\n    return h(x)\n",
            "late.py": "import nowhere.at.all\n\ndef h(x):\n    return x\n",
        },
        ("late.py", "import nowhere.at.all"),
        "import json.decoder",
    ),
    "an import of no submodule": (
        {
            "main.py": "def root(x):\n    from late import h\n    return h(x)\n",
            "late.py": "import pack.nothing\n\ndef h(x):\n    return x\n",
            "pack/__init__.py": "",
            "pack/inner.py": "",
        },
        ("late.py", "import pack.nothing"),
        "import pack.inner",
    ),
    "a relative import that fails": (
        {
            "main.py": "def root(x):\n    from pack import inner\n    return inner.h(x)\n",
            "pack/__init__.py": "",
            "pack/other.py": "K = 1\n",
            "pack/inner.py": "from .other import N\n\ndef h(x):\n    return x\n",
        },
        ("pack/inner.py", "import N"),
        "import K",
    ),
    "all of a module that does not exist": (
        {
            "main.py": "def root(x):\n    from late import h\n    return h(x)\n",
            "late.py": "from nowhere import *\n\ndef h(x):\n    return x\n",
        },
        ("late.py", "nowhere"),
        "math",
    ),
    "a name that a library does not have": (
        {
            "main.py": "def root(x):\n    from late import h\n    return h(x)\n",
            "late.py": "from math import nothing\n\ndef h(x):\n    return x\n",
        },
        ("late.py", "nothing"),
        "pi",
    ),
    "a submodule that nobody mentions": (
        {
            "main.py": "def root(x):\n    from late import h\n    return h(x)\n",
            "late.py": "import pack.patches, textwrap\n\ndef h(x):\n    return textwrap.fill(x)\n",
            "pack/__init__.py": "",
            "pack/patches.py": "import textwrap\ntextwrap.fill = lambda x: x + 1\n",
        },
        ("pack/patches.py", "+ 1"),
        "+ 2",
    ),
    "a module that is imported in a try": (
        {
            "main.py": "def root(x):\n    from late import h\n    return h(x)\n",
            "late.py": "import textwrap\ntry:\n    import first\nexcept ImportError:\n    pass\n\ndef h(x):\n    return textwrap.fill(x)\n",
            "first.py": "import second\n",
            "second.py": "import textwrap\ntextwrap.fill = lambda x: x + 1\n",
        },
        ("second.py", "+ 1"),
        "+ 2",
    ),
    "all of another library": (
        {
            "main.py": "def root(x):\n    from late import h\n    return h(x)\n",
            "late.py": "from math import *\n\ndef h(x):\n    return sqrt(x)\n",
        },
        ("late.py", "math"),
        "cmath",
    ),
}
