"""Small random projects, and random edits of them.

Modules use the ones after them, in every way to import. The same names occur in several modules, so that an edit of
an import may pick another function of the same name. Edits are made in the text: most change a result of some
function, some change nothing, some break the project.
"""

# ruff: noqa: E501 - one statement per line

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

MODULES = ("main", "alpha", "pack.beta", "pack.gamma")
FUNCTIONS = ("f", "g", "h")
CONSTANTS = ("K", "LIMIT")
SAMPLES = (0, 3, 7)
Files = dict[str, str]


@dataclass
class _Module:
    name: str
    imports: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    callables: list[str] = field(default_factory=list)
    """Expressions that take one number."""
    numbers: list[str] = field(default_factory=list)


def project(rng: random.Random) -> Files:
    """Return the files of a project whose `main.root` takes a number."""
    made: list[_Module] = []
    for name in reversed(MODULES):
        module = _Module(name)
        _import_some(rng, module, made)
        for _ in range(rng.randint(1, 3)):
            _add(rng, module)
        if name == "main":
            body = " + ".join(f"{_call(rng, module, 'x')}" for _ in range(rng.randint(2, 4)))
            module.lines.append(f"def root(x):\n    return {body}\n")
        made.append(module)
    files = {_path(one.name): "\n".join([*one.imports, "", *one.lines]) for one in made}
    files["pack/__init__.py"] = rng.choice(["", "from .gamma import *\n", "from pack.gamma import f\n"])
    return files


def _path(name: str) -> str:
    return name.replace(".", "/") + ".py"


def _import_some(rng: random.Random, module: _Module, made: list[_Module]) -> None:
    for number, other in enumerate(rng.sample(made, rng.randint(min(1, len(made)), len(made)))):
        style = rng.randrange(5)
        wanted = [*other.callables, *other.numbers]
        plain = [one for one in wanted if one.isidentifier()]
        if style == 0 and plain:
            name = rng.choice(plain)
            alias = f"{name}_{number}"
            module.imports.append(f"from {other.name} import {name} as {alias}")
            (module.callables if name in other.callables else module.numbers).append(alias)
        elif style == 1:
            module.imports.append(f"import {other.name} as m{number}")
            module.callables += [f"m{number}.{one}" for one in other.callables if one.isidentifier()]
            module.numbers += [f"m{number}.{one}" for one in other.numbers if one.isidentifier()]
        elif style == 2:
            module.imports.append(f"import {other.name}")
            module.callables += [f"{other.name}.{one}" for one in other.callables if one.isidentifier()]
        elif style == 3 and plain:
            name = rng.choice([one for one in plain if one in other.callables] or plain)
            module.lines.append(
                f"def late{number}(x):\n    from {other.name} import {name} as inner\n"
                f"    return inner(x) if callable(inner) else inner + x\n"
            )
            module.callables.append(f"late{number}")
        else:
            module.imports.append(f"from {other.name} import *")
            module.callables += [one for one in other.callables if one.isidentifier() and one[0] != "_"]
            module.numbers += [one for one in other.numbers if one.isidentifier() and one[0] != "_"]


def _call(rng: random.Random, module: _Module, argument: str) -> str:
    if module.callables and rng.random() < 0.8:
        return f"{rng.choice(module.callables)}({argument})"
    return f"({argument} + {rng.randint(0, 9)})"


def _number(rng: random.Random, module: _Module) -> str:
    if module.numbers and rng.random() < 0.6:
        return rng.choice(module.numbers)
    return str(rng.randint(0, 9))


def _expression(rng: random.Random, module: _Module) -> str:
    first, second = _call(rng, module, "x"), _number(rng, module)
    return rng.choice(
        [
            f"{first} + {second}",
            f"{first} * {second} - {rng.randint(0, 9)}",
            f"sum([{first} for x in range({rng.randint(1, 3)})]) + {second}",
            f"max({first}, {second})",
            f"({first} if x > {rng.randint(0, 5)} else {second})",
            f"len(f'{{{first}}}-{second}')",
        ]
    )


def _add(rng: random.Random, module: _Module) -> None:  # noqa: C901, PLR0912 - one case for each kind
    made = len(module.lines)
    kind = rng.randrange(13)
    name = rng.choice(FUNCTIONS)
    text = _expression(rng, module)
    digit = rng.randint(0, 9)
    match kind:
        case 0 | 1:
            module.lines.append(f"def {name}(x):\n    return {text}\n")
            module.callables.append(name)
        case 2:
            constant = rng.choice(CONSTANTS)
            module.lines.append(f"{constant} = {_number(rng, module)} + {digit}\n")
            module.numbers.append(constant)
        case 3:
            module.lines.append(
                f"def {name}(x, by={_number(rng, module)}, *, plus={digit}):\n    return {text} + by + plus\n"
            )
            module.callables.append(name)
        case 4:
            module.lines.append(
                f"def make{made}(n):\n    def inner(x):\n        return {text} + n\n    return inner\n"
            )
            module.lines.append(f"made{made} = make{made}({digit})\n")
            module.callables.append(f"made{made}")
        case 5:
            module.lines.append(
                f"class Base{made}:\n    rate = {digit}\n    def run(self, x):\n        return {text} + self.rate\n"
            )
            module.lines.append(
                f"class Child{made}(Base{made}):\n    def __init__(self, n):\n        self.n = n\n    def __call__(self, x):\n        return self.run(x) * self.n\n"
            )
            module.lines.append(f"child{made} = Child{made}({rng.randint(1, 9)})\n")
            if rng.random() < 0.5:
                module.lines.append(f"Base{made}.rate = {rng.randint(0, 9)}\n")
            module.callables.append(f"child{made}")
        case 6:
            module.lines.append(
                f"def deco{made}(n):\n    def around(fn):\n        def wrapper(x):\n            return fn(x) + n\n        return wrapper\n    return around\n"
            )
            module.lines.append(f"@deco{made}({digit})\ndef dec{made}(x):\n    return {text}\n")
            module.callables.append(f"dec{made}")
        case 7:
            module.lines.append(
                f"REG{made} = {{}}\ndef register{made}(key):\n    def add(fn):\n        REG{made}[key] = fn\n        return fn\n    return add\n"
            )
            module.lines.append(f"@register{made}({digit % 2})\ndef handler{made}(x):\n    return {text}\n")
            module.lines.append(f"@register{made}(1)\ndef handler{made}b(x):\n    return x - {digit}\n")
            module.lines.append(f"def use{made}(x):\n    return REG{made}.get(x % 2, abs)(x)\n")
            module.callables.append(f"use{made}")
        case 8:
            module.lines.append(f"pair{made}, other{made} = lambda x: {text}, lambda x: x + {digit}\n")
            module.callables += [f"pair{made}", f"other{made}"]
        case 9:
            module.lines.append(
                f"TABLE{made} = {{'a': {digit}, 'b': {_number(rng, module)}}}\nTABLE{made}['a'] = {rng.randint(0, 9)}\n"
            )
            module.lines.append(f"def look{made}(x):\n    return TABLE{made}['a' if x % 2 else 'b'] + x\n")
            module.callables.append(f"look{made}")
        case 10:
            module.lines.append(
                f"STATE{made} = {digit}\ndef configure{made}(n):\n    global STATE{made}\n    STATE{made} = n\nconfigure{made}({rng.randint(0, 9)})\n"
            )
            module.lines.append(f"def state{made}(x):\n    return x + STATE{made}\n")
            module.callables.append(f"state{made}")
        case 11:
            module.lines.append(
                f"items{made} = [{digit}]\nfor n in range({rng.randint(1, 4)}):\n    items{made}.append(n * {rng.randint(0, 5)})\n"
            )
            module.lines.append(f"steps{made} = [lambda x, n=n: x + n for n in items{made}]\n")
            module.lines.append(f"def step{made}(x):\n    return steps{made}[-1](x)\n")
            module.callables.append(f"step{made}")
        case _:
            if module.callables:
                target = rng.choice(module.callables)
                module.lines.append(
                    f"import functools\npart{made} = functools.partial(lambda n, x: {target}(x) + n, {digit})\n"
                )
                module.callables.append(f"part{made}")
            if "." in (target := rng.choice([*module.callables, ""])) and rng.random() < 0.5:
                module.lines.append(f"{target} = lambda x: x * {rng.randint(2, 9)}\n")


def edited(rng: random.Random, files: Files) -> Files:
    """Return the files with one to three edits."""
    files = dict(files)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        rng.choice(_EDITS)(rng, files)
    return files


def _in_some_file(rng: random.Random, files: Files, pattern: str) -> tuple[str, re.Match[str]] | None:
    found = [(name, one) for name, text in sorted(files.items()) for one in re.finditer(pattern, text)]
    return rng.choice(found) if found else None


def _replaced(files: Files, name: str, match: re.Match[str], text: str) -> None:
    files[name] = files[name][: match.start()] + text + files[name][match.end() :]


def _other_digit(rng: random.Random, files: Files) -> None:
    if found := _in_some_file(rng, files, r"(?<![\w.])\d+(?!\w)"):
        _replaced(files, *found, str(rng.randint(0, 9)))


def _other_operator(rng: random.Random, files: Files) -> None:
    if found := _in_some_file(rng, files, r" [+*-] "):
        _replaced(files, *found, rng.choice([" + ", " * ", " - "]))


def _other_name(rng: random.Random, files: Files) -> None:
    """Call or import another function."""
    if found := _in_some_file(
        rng, files, r"\b[fgh]\b(?!')|\bK\b|\bLIMIT\b|\b(alpha|pack\.beta|pack\.gamma)\b"
    ):
        name = found[1].group()
        choices = FUNCTIONS if name in FUNCTIONS else CONSTANTS if name in CONSTANTS else MODULES[1:]
        _replaced(files, *found, rng.choice(choices))


def _statements(text: str) -> list[str]:
    return [one for one in re.split(r"\n(?=\S)", text) if one.strip()]


def _swap(rng: random.Random, files: Files) -> None:
    name = rng.choice(sorted(files))
    parts = _statements(files[name])
    if len(parts) > 1:
        first = rng.randrange(len(parts) - 1)
        parts[first], parts[first + 1] = parts[first + 1], parts[first]
        files[name] = "\n".join(parts) + "\n"


def _remove(rng: random.Random, files: Files) -> None:
    name = rng.choice(sorted(files))
    parts = _statements(files[name])
    if parts:
        parts.pop(rng.randrange(len(parts)))
        files[name] = "\n".join(parts) + "\n"


def _comment(rng: random.Random, files: Files) -> None:
    name = rng.choice(sorted(files))
    parts = _statements(files[name])
    parts.insert(rng.randint(0, len(parts)), "# a comment\n\n")
    files[name] = "\n".join(parts) + "\n"


def _redefine(rng: random.Random, files: Files) -> None:
    """Define a function again, somewhere in the module."""
    name = rng.choice(sorted(files))
    parts = _statements(files[name])
    parts.insert(
        rng.randint(0, len(parts)), f"def {rng.choice(FUNCTIONS)}(x):\n    return x + {rng.randint(0, 9)}\n"
    )
    files[name] = "\n".join(parts) + "\n"


_EDITS = (
    *(_other_digit, _other_digit, _other_digit, _other_operator, _other_operator),
    *(_other_name, _swap, _remove, _comment, _redefine),
)
