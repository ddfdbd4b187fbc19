"""Infer the type that a function without annotations returns, if its bytecode leaves no doubt.

A lambda cannot be annotated, and a key of another type than the declared one would only fail at the first
record. So the code of the function is read, never run: attributes, items, calls of annotated functions,
arithmetic and f-strings. Everything else (a jump, an unknown instruction, a field of type Any) is UNKNOWN.
"""

from __future__ import annotations

import builtins
import dis
import typing
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from tidegate.dsl.types_of import UNKNOWN, returned_by
from tidegate.serde import Serde
from tidegate.serde.plain import PLAIN
from tidegate.serde.structured import Structured

_NUMBERS: tuple[Any, ...] = (int, float)
_ASYNC_OR_GENERATOR = 0x20 | 0x80 | 0x100 | 0x200
_IGNORED = ("RESUME", "PRECALL", "PUSH_NULL", "COPY_FREE_VARS", "CACHE", "NOP")


class _Doubt(Exception):  # noqa: N818 - no failure: the type stays unknown
    """The code does something that is not followed here."""


class _Called:
    """A function or class that the code is about to call."""

    def __init__(self, target: Any) -> None:
        self.target = target


def type_of(declared: Any) -> Any:
    """Return the Python type of a declared type or serde; UNKNOWN if a serde does not name it."""
    if not isinstance(declared, Serde):
        return declared
    if isinstance(declared, Structured):
        return declared.declared_type
    plain = (kind for kind, serde in PLAIN.items() if isinstance(declared, type(serde)))
    return next(plain, UNKNOWN)


def result_of(function: Callable[..., Any], argument: Any) -> Any:
    """Return the type of the function's result for an argument of this type; UNKNOWN in case of doubt."""
    if not isinstance(function, FunctionType) or function.__code__.co_flags & _ASYNC_OR_GENERATOR:
        return UNKNOWN
    try:
        return _followed(function, function.__code__, argument)
    except (_Doubt, IndexError):
        return UNKNOWN


def _followed(function: FunctionType, code: CodeType, argument: Any) -> Any:
    """Return the type on top of the stack when the code returns."""
    stack: list[Any] = []
    for step in dis.get_instructions(code):
        if step.opname in _IGNORED:
            continue
        if step.opname == "RETURN_VALUE":
            found = stack.pop()
            return UNKNOWN if isinstance(found, _Called) else found
        if step.opname == "RETURN_CONST":
            return type(step.argval)
        if step.opname == "LOAD_FAST":
            if not code.co_argcount or step.argval != code.co_varnames[0]:
                raise _Doubt
            stack.append(argument)
        elif step.opname in ("LOAD_GLOBAL", "LOAD_DEREF"):
            stack.append(_Called(_named(function, step.argval)))
        elif step.opname in _STEPS:
            stack.append(_STEPS[step.opname](stack, step))
        else:
            raise _Doubt
    raise _Doubt


def _taken(stack: list[Any], count: int) -> list[Any]:
    return [stack.pop() for _ in range(count)]


def _named(function: FunctionType, name: str) -> Any:
    """Return the value of a global name, or of a name of the enclosing function."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
    if name in cells:
        try:
            return cells[name].cell_contents
        except ValueError:
            raise _Doubt from None
    if name in function.__globals__:
        return function.__globals__[name]
    if hasattr(builtins, name):
        return getattr(builtins, name)
    raise _Doubt


def _attribute(owner: Any, name: str) -> Any:
    """Return the declared type of a field, or a method that is about to be called."""
    if isinstance(owner, _Called):
        try:
            return _Called(getattr(owner.target, name))
        except AttributeError:
            raise _Doubt from None
    try:
        declared = typing.get_type_hints(owner).get(name, UNKNOWN)
    except (NameError, TypeError, AttributeError):
        raise _Doubt from None
    if declared is not UNKNOWN:
        return _certain(declared)
    found = getattr(owner, name, None)
    if isinstance(found, property) and found.fget is not None:
        return _certain(returned_by(found.fget))
    return _Called(found)


def _item(stack: list[Any], _: dis.Instruction) -> Any:
    _taken(stack, 1)
    owner = stack.pop()
    origin, inside = typing.get_origin(owner), typing.get_args(owner)
    if owner is str:
        return str
    if origin is list:
        return _certain(inside[0])
    if origin is dict:
        return _certain(inside[1])
    raise _Doubt


def _computed(stack: list[Any], step: dis.Instruction) -> Any:
    right, left = _taken(stack, 2)
    operator = step.argrepr
    if left is str and (operator == "%" or (operator == "+" and right is str)):
        return str
    if left in _NUMBERS and right in _NUMBERS and operator in ("+", "-", "*", "//", "%", "/"):
        return int if left is right is int and operator != "/" else float
    raise _Doubt


def _text(stack: list[Any], step: dis.Instruction) -> Any:
    """Replace the parts of an f-string on the stack by str."""
    number = step.arg or 0
    with_format = step.opname == "FORMAT_WITH_SPEC" or (step.opname == "FORMAT_VALUE" and number & 4)
    _taken(stack, number if step.opname == "BUILD_STRING" else 2 if with_format else 1)
    return str


def _returned(stack: list[Any], step: dis.Instruction) -> Any:
    _taken(stack, step.arg or 0)
    called = stack.pop()
    if not isinstance(called, _Called) or not callable(called.target):
        raise _Doubt
    if called.target is len:
        return int
    return _certain(returned_by(called.target))


def _certain(declared: Any) -> Any:
    if declared in (UNKNOWN, Any, object) or isinstance(declared, str | typing.TypeVar):
        raise _Doubt
    return declared


_STEPS: dict[str, Callable[[list[Any], dis.Instruction], Any]] = {
    "LOAD_CONST": lambda _, step: type(step.argval),
    "LOAD_ATTR": lambda stack, step: _attribute(stack.pop(), step.argval),
    "LOAD_METHOD": lambda stack, step: _attribute(stack.pop(), step.argval),
    "BINARY_SUBSCR": _item,
    "BINARY_OP": _computed,
    "FORMAT_VALUE": _text,
    "FORMAT_SIMPLE": _text,
    "FORMAT_WITH_SPEC": _text,
    "BUILD_STRING": _text,
    "CALL": _returned,
}
"""Instructions of Python 3.11 to 3.13 by name: each takes its operands from the stack and returns a type."""
