"""Show a live value as text that is the same in every process.

Never a pickle, an address or a `repr` of an unknown object. Sets are sorted; dictionaries keep their order,
since a loop over them does. Functions and classes inside are followed as code. Objects of the project are
shown by their class and fields, objects of tidegate by their class and name: the manifest holds the rest of
them. What cannot be shown is reported as unseen.
"""

from __future__ import annotations

import array
import collections
import datetime
import enum
import functools
import logging
import operator
import pathlib
import re
import threading
import types
import typing
from collections.abc import Callable
from typing import Any, Protocol

from tidegate.fingerprint.fields import SHOWN_BY_REPR, declares_fields, fields_of, is_settings, number_text
from tidegate.fingerprint.fingerprint import digest_of
from tidegate.fingerprint.graph import Piece
from tidegate.fingerprint.project import is_own, is_standard

_SCALARS = (type(None), bool, int, float, complex, bytes, type(...), type(NotImplemented))
_PLAIN = frozenset(_SCALARS)
_GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
_WITHOUT_MEANING = (logging.Logger, logging.LoggerAdapter, type(threading.Lock()), type(threading.RLock()))
_BUILT_IN = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)
_PARTS = ("declared_type", "key_serde", "value_serde", "timestamp")
"""What of the user's code an object of tidegate holds: serdes and topics."""
_DEEPEST = 60
_MOST = 500_000
"""Objects inside of one value; more are not looked at."""
SEPARATOR = "\x1f"


class Code(Protocol):
    """What follows functions, classes and modules as code."""

    @property
    def roots(self) -> tuple[str, ...]:
        """Folders that modules were imported from: absolute paths below them are shown relative to them."""
        ...

    def function(self, function: types.FunctionType) -> Piece: ...

    def project_class(self, kind: type) -> Piece | None:
        """Return None if the class is not of the project."""

    def project_module(self, module: types.ModuleType) -> Piece | None: ...


class Showing:
    """Shows values that belong to a piece. What the values refer to is added to the piece."""

    def __init__(self, code: Code, piece: Piece) -> None:
        self._code = code
        self._piece = piece
        self._tokens: list[str] = []
        self._path: dict[int, int] = {}
        self._shown = 0
        self._ordered = piece.ordered

    def digest(self, value: Any) -> str:
        """Return the digest of a value."""
        return digest_of(self.text(value))

    def text(self, value: Any) -> str:
        self._tokens = []
        self._show(value)
        return SEPARATOR.join(self._tokens)

    def _show(self, value: Any) -> None:
        kind = type(value)
        if kind in _PLAIN:
            self._tokens.append(f"{kind.__name__} {number_text(value)}")
            return
        if kind is str:
            self._tokens.append(f"str {self._relative(value)!a}")
            return
        if len(self._path) > _DEEPEST:
            self._unknown(value)
            return
        if id(value) in self._path:
            self._tokens.append(f"circle {self._path[id(value)]}")
            return
        self._path[id(value)] = len(self._path)
        self._shown += 1
        try:
            if self._shown > _MOST:
                self._unknown(value)
            else:
                self._object(value, kind)
        except Exception:  # noqa: BLE001 - code of users runs here: properties, iterators
            self._unknown(value)
        finally:
            del self._path[id(value)]

    def _object(self, value: Any, kind: type) -> None:
        for known, show in _KNOWN:
            if isinstance(value, known):
                show(self, value)
                return
        name = kind.__module__
        if is_settings(kind):
            self._class_of(value)
            self._show(value.counted())
        elif is_own(name):
            self._tokens.append(f"tidegate {kind.__qualname__}")
            given = getattr(value, "name", None)
            if isinstance(given, str):
                self._tokens.append(ascii(given))
            for part in _PARTS:
                self._show(getattr(value, part, None))
        elif typing.get_origin(value) is not None:
            self._generic(value)
        elif isinstance(value, functools._lru_cache_wrapper):
            self._tokens.append(f"lru_cache {value.cache_parameters()}")
            self._show(value.__wrapped__)
        else:
            self._instance(value, kind)

    # --- containers -------------------------------------------------------------------------------------

    def _all(self, values: Any) -> None:
        for one in values:
            self._show(one)
        self._tokens.append("]")

    def _sequence(self, value: Any) -> None:
        self._class_of(value)
        kinds = set(map(type, value))
        if kinds <= _PLAIN or (kinds == {str} and not any(one.startswith("/") for one in value)):
            self._tokens.append(number_text(list(value)))
        else:
            self._all(value)
        if isinstance(value, collections.deque):
            self._tokens.append(f"at most {value.maxlen}")
        self._added_fields(value)

    def _set(self, value: Any) -> None:
        """Each element is a piece of its own: their order is not known."""
        self._class_of(value)
        for one in value:
            piece = Piece(location=self._piece.location)
            inner = Showing(self._code, piece)
            inner._path = self._path
            piece.text = inner.text(one)
            piece.packages, piece.unseen = self._piece.packages, self._piece.unseen
            self._piece.extra.append(piece)
        self._tokens += [*sorted(one.text for one in self._piece.extra[-len(value) :] if value), "]"]
        self._added_fields(value)

    def _mapping(self, value: Any) -> None:
        self._class_of(value)
        if isinstance(value, collections.defaultdict):
            self._show(value.default_factory)
        if isinstance(value, collections.ChainMap):
            self._all(value.maps)
        for key, inner in list(value.items()):
            self._show(key)
            self._show(inner)
        self._tokens.append("]")
        self._added_fields(value)

    def _added_fields(self, value: Any) -> None:
        """Show the fields of a container of the user's own class."""
        if hasattr(value, "__dict__") or self._code.project_class(type(value)) is not None:
            self._fields(value)

    def _namespace(self, value: types.SimpleNamespace) -> None:
        self._class_of(value)
        self._mapping(vars(value))

    # --- code -------------------------------------------------------------------------------------------

    def _follow(self, piece: Piece, token: str) -> None:
        self._tokens.append(token)
        self._ordered.append(piece)

    def _function(self, value: types.FunctionType) -> None:
        self._follow(self._code.function(value), "function")

    def _class(self, value: type) -> None:
        piece = self._code.project_class(value)
        if piece is not None:
            self._follow(piece, f"class {value.__qualname__}")
            return
        self._tokens.append(f"class {value.__module__}.{value.__qualname__}")
        self._mentions(value.__module__)

    def _generic(self, value: Any) -> None:
        self._tokens.append("generic")
        self._show(typing.get_origin(value))
        self._all(typing.get_args(value))

    def _class_of(self, value: Any) -> None:
        self._class(type(value))

    def _module(self, value: types.ModuleType) -> None:
        piece = self._code.project_module(value)
        if piece is not None:
            self._follow(piece, "module")
        else:
            self._tokens.append(f"module {value.__name__}")
            self._mentions(value.__name__)

    def _method(self, value: types.MethodType) -> None:
        self._tokens.append("method")
        self._show(value.__func__)
        self._show(value.__self__)

    def _partial(self, value: functools.partial[Any]) -> None:
        self._tokens.append("partial")
        self._show(value.func)
        self._all(value.args)
        self._show(dict(sorted(value.keywords.items())))
        self._added_fields(value)

    def _built_in(self, value: Any) -> None:
        owner = getattr(value, "__self__", None)
        module = getattr(value, "__module__", None) or ""
        self._tokens.append(f"built-in {module}.{value.__qualname__}")
        self._mentions(module)
        if owner is not None and not isinstance(owner, types.ModuleType):
            self._show(owner)
        elif isinstance(owner, types.ModuleType):
            piece = self._code.project_module(owner)
            if piece is not None:
                self._ordered.append(piece)

    def _descriptor(self, value: Any) -> None:
        self._class_of(value)
        for name in ("fget", "fset", "fdel", "__func__", "func", "args", "keywords", "dispatcher"):
            inner = getattr(value, name, None)
            if inner is not None:
                self._tokens.append(name)
                self._show(getattr(inner, "registry", inner) if name == "dispatcher" else inner)
        self._tokens.append("]")

    # --- single objects ---------------------------------------------------------------------------------

    def _text(self, value: str) -> None:
        self._class_of(value)
        self._tokens.append(ascii(self._relative(str.__str__(value))))
        self._fields(value)

    def _scalar(self, value: Any) -> None:
        """An object of a class that inherits from int, float, bytes and so on."""
        self._class_of(value)
        plain: Any
        for plain in (int, float, complex, bytes):
            if isinstance(value, plain):
                self._tokens.append(number_text(plain(value)))
        self._fields(value)

    def _member(self, value: enum.Enum) -> None:
        self._class_of(value)
        self._tokens.append(str(getattr(value, "_name_", "")))
        self._show(getattr(value, "_value_", None))

    def _pattern(self, value: re.Pattern[Any]) -> None:
        self._tokens.append(f"pattern {value.pattern!a} {value.flags}")

    def _by_repr(self, value: Any) -> None:
        """A class of the project may have a `repr` of its own, and that of a zone may hold an address."""
        kind, zone = type(value), getattr(value, "tzinfo", None)
        if isinstance(value, datetime.tzinfo) and self._code.project_class(kind) is not None:
            self._instance(value, kind)
            return
        self._class_of(value)
        if isinstance(zone, datetime.tzinfo):
            self._show(zone)
            value = value.replace(tzinfo=None)
        base: Any = next(one for one in kind.__mro__ if self._code.project_class(one) is None)
        self._tokens.append(ascii(base.__repr__(value)))
        self._added_fields(value)

    def _file_path(self, value: pathlib.PurePath) -> None:
        self._tokens.append(f"{type(value).__name__} {self._relative(value.as_posix())!a}")

    def _bytes(self, value: Any) -> None:
        view = memoryview(value)
        self._tokens.append(f"{type(value).__qualname__} {view.format} {view.shape} {view.strides}")
        self._tokens.append(digest_of(view.tobytes().hex()))

    def _getter(self, value: Any) -> None:
        self._class_of(value)
        self._show(value.__reduce__())

    def _variable(self, value: Any) -> None:
        self._tokens.append(f"{type(value).__name__} {getattr(value, '__name__', '')}")
        self._show(getattr(value, "__supertype__", None))

    def _type_text(self, value: Any) -> None:
        self._tokens.append(f"type {value.__forward_arg__!a}")

    def _without_meaning(self, value: Any) -> None:
        self._tokens.append(f"object {type(value).__module__}.{type(value).__qualname__}")

    def _instance(self, value: Any, kind: type) -> None:
        """Show an object by class and fields. Of a class outside of the project only fields that it declares
        count: others may hold connections, times or addresses."""
        piece = self._code.project_class(kind)
        self._class_of(value)
        if piece is not None or declares_fields(kind):
            self._fields(value)
            return
        try:
            self._bytes(value)
            if getattr(value, "__dict__", None):
                self._unknown(value)
        except (TypeError, ValueError, BufferError):
            self._unknown(value)

    def _fields(self, value: Any) -> None:
        for name, inner in fields_of(value).items():
            self._tokens.append(f"field {name}")
            self._show(inner)
        self._tokens.append("]")

    def _unknown(self, value: Any) -> None:
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        self._tokens.append(f"object {name}")
        self._piece.unseen.append(("dynamic", name))
        self._mentions(kind.__module__)

    def _mentions(self, module: str) -> None:
        top = module.partition(".")[0]
        if top and not is_standard(top) and not is_own(top):
            self._piece.packages.add(module)

    def _relative(self, text: str) -> str:
        """Replace the folder that the project was imported from: it differs between machines."""
        if text.startswith("/"):
            for root in self._code.roots:
                if text == root or text.startswith(root + "/"):
                    return "<project>" + text[len(root) :]
        return text


_KNOWN: list[tuple[Any, Callable[[Showing, Any], None]]] = [
    (enum.Enum, Showing._member),
    (types.FunctionType, Showing._function),
    (types.GenericAlias, Showing._generic),
    (type, Showing._class),
    (types.ModuleType, Showing._module),
    (types.MethodType, Showing._method),
    (functools.partial, Showing._partial),
    (_BUILT_IN, Showing._built_in),
    (
        (
            *(property, classmethod, staticmethod),
            *(functools.cached_property, functools.partialmethod, functools.singledispatchmethod),
        ),
        Showing._descriptor,
    ),
    (str, Showing._text),
    ((bytearray, memoryview, array.array), Showing._bytes),
    ((int, float, complex, bytes), Showing._scalar),
    (SHOWN_BY_REPR, Showing._by_repr),
    (re.Pattern, Showing._pattern),
    (pathlib.PurePath, Showing._file_path),
    (_GETTERS, Showing._getter),
    ((typing.TypeVar, typing.NewType, typing.ParamSpec), Showing._variable),
    (typing.ForwardRef, Showing._type_text),
    (_WITHOUT_MEANING, Showing._without_meaning),
    ((list, tuple, collections.deque), Showing._sequence),
    ((set, frozenset), Showing._set),
    ((dict, types.MappingProxyType, collections.ChainMap), Showing._mapping),
    (types.SimpleNamespace, Showing._namespace),
]
