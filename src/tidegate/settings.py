"""Settings of an app: typed, with defaults, read from `[settings]` and the environment.

class Config(Settings):
    min_cents: int = 0                             # a change recalculates ...
    pager_key: Secret | None = operational(None)   # ... unless marked operational
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform, get_args, get_type_hints

import msgspec

from tidegate.config.config import load_config
from tidegate.errors import ConfigError

T = TypeVar("T")
S = TypeVar("S", bound="Settings")


class Secret:
    """Text that prints as `***`. `reveal()` returns it, explicitly."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


def operational(default: T) -> T:
    """Mark a setting whose change recalculates nothing."""
    marked: T = dataclasses.field(default=default, metadata={"operational": True})
    return marked


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Settings:
    """Base class: subclass it with annotated fields. Instances are immutable."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)

    @classmethod
    def load(cls: type[S], *, folder: Path | None = None) -> S:
        """Load the settings from tidegate.toml and the environment."""
        config = load_config(folder=folder) if folder else load_config()
        return cls.of(config.settings)

    @classmethod
    def of(cls: type[S], values: Mapping[str, Any]) -> S:
        """Create the settings from plain values, as a file or the environment provides them."""
        known = {field.name for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        for name in values:
            if name not in known:
                raise ConfigError(
                    "unknown-setting",
                    f"{cls.__name__} has no setting {name!r}",
                    f"use one of: {', '.join(sorted(known)) or 'none'}",
                )
        try:
            return msgspec.convert(dict(values), cls, strict=False, dec_hook=_secret)
        except msgspec.ValidationError as error:
            raise ConfigError(
                "bad-setting", f"{cls.__name__}: {error}", "correct it in tidegate.toml"
            ) from None

    def counted(self) -> dict[str, Any]:
        """Return the settings whose change recalculates, as plain values for the manifest. Secrets are left
        out: they give access and do not influence results."""
        hints = get_type_hints(type(self))
        counted: dict[str, Any] = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            if field.metadata.get("operational") or _may_be_secret(hints[field.name]):
                continue
            try:
                counted[field.name] = msgspec.to_builtins(getattr(self, field.name), enc_hook=_hidden)
            except TypeError as error:
                raise ConfigError(
                    "bad-setting",
                    f"{type(self).__name__}.{field.name} cannot be stored in the manifest: {error}",
                    "use plain types, or mark it operational",
                ) from None
        return counted


def _may_be_secret(hint: Any) -> bool:
    """Whether the type is or includes Secret, also while the value is None: setting a secret recalculates
    nothing."""
    return hint is Secret or Secret in get_args(hint)


def _hidden(value: Any) -> str:
    if isinstance(value, Secret):
        return repr(value)
    raise TypeError(f"no setting can be a {type(value).__name__}")


def _secret(kind: type, value: Any) -> Any:
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise TypeError("it must be text" if kind is Secret else f"no setting can be a {kind.__name__}")
