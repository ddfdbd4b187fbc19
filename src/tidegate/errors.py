"""Every error that tidegate raises on purpose.

    TidegateError               code, message, hint, retryable
    ├── TopologyError           a topology that cannot be built; node and file:line
    ├── ConfigError             a setting, name or argument that cannot be used
    ├── SerdeError              bytes or a value that a serde refuses; position if known
    ├── RegistryError           the schema registry is unreachable, or refuses; no record's fault
    ├── UserCodeError           a user's function raised; position and generation
    ├── StateError              a store that cannot be opened, read or written
    ├── LogError                the log refused or failed
    │   └── FencedError         a newer holder of the same writer id exists
    ├── ClientError             a server refused a client, or cannot be followed; status
    └── UpgradeError            an upgrade that cannot continue

One code names one failure everywhere: in the exception, in `--json`, over HTTP and as the anchor in
the docs. A message says what happened to what; the hint says what to do; `retryable` is whether the same
call may work later with nothing changed.
"""

from __future__ import annotations

from typing import Any


class TidegateError(Exception):
    """The base class of every error that tidegate raises on purpose."""

    def __init__(self, code: str, message: str, hint: str = "", *, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.retryable = retryable

    def __str__(self) -> str:
        text = f"[{self.code}] {self.message}"
        return f"{text}  Do: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by fields: errors cross processes, and their constructors take other arguments than
        `Exception` keeps."""
        return _rebuilt, (type(self), self.args, self.__dict__)

    def as_dict(self) -> dict[str, Any]:
        """Return the error in the form that `--json` and HTTP use."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "retryable": self.retryable}


class TopologyError(TidegateError):
    """A topology that cannot be built."""

    def __init__(
        self, code: str, message: str, hint: str = "", *, node: str = "", location: str = ""
    ) -> None:
        super().__init__(code, message, hint)
        self.node = node
        self.location = location

    def __str__(self) -> str:
        prefix = "  ".join(part for part in (self.location, self.node) if part)
        return f"{prefix}  {super().__str__()}" if prefix else super().__str__()


class ConfigError(TidegateError):
    """A setting, a name or an argument that cannot be used as it is."""


class SerdeError(TidegateError):
    """Bytes or a value that a serde refuses. `position` is (topic, partition, offset) where known."""

    def __init__(
        self, code: str, message: str, hint: str = "", *, position: tuple[str, int, int] | None = None
    ) -> None:
        super().__init__(code, message, hint)
        self.position = position

    def at(self, topic: str, partition: int, offset: int) -> SerdeError:
        """Return the same error with the record's position."""
        message = f"{topic}/{partition} offset {offset}: {self.message}"
        return SerdeError(self.code, message, self.hint, position=(topic, partition, offset))


class RegistryError(TidegateError):
    """The schema registry is unreachable, or refuses a schema. No record is at fault, so none is skipped."""


class UserCodeError(TidegateError):
    """A user's function raised. The cause carries the user's frames."""

    def __init__(
        self,
        code: str,
        message: str,
        hint: str = "",
        *,
        position: tuple[str, int, int] | None = None,
        generation: int | None = None,
    ) -> None:
        super().__init__(code, message, hint)
        self.position = position
        self.generation = generation


class StateError(TidegateError):
    """A store that cannot be opened, read or written."""


class LogError(TidegateError):
    """The log refused a call or failed in it."""

    topic: str = ""
    """The topic whose records were refused, if known."""


class FencedError(LogError):
    """A newer holder of the same writer id exists: nothing of this writer will ever be committed."""

    def __init__(self, writer: str, held: int | None = None, current: int | None = None) -> None:
        super().__init__(
            "fenced",
            f"writer {writer!r}{_epoch(held)} was fenced by a newer one{_epoch(current)}",
            "stop this writer; the newer one continues from the committed positions",
        )
        self.writer = writer


def _epoch(number: int | None) -> str:
    return "" if number is None else f" (epoch {number})"


class ClientError(TidegateError):
    """A server refused the request of a client, or its stream cannot be followed."""

    def __init__(
        self,
        code: str,
        message: str,
        hint: str = "",
        *,
        retryable: bool = False,
        status: int = 0,
        token: str | None = None,
    ) -> None:
        super().__init__(code, message, hint, retryable=retryable)
        self.status = status
        """Of HTTP; 0 if there is no response."""
        self.token = token
        """The current token, where the server has sent it: with `other-version`."""


class UpgradeError(TidegateError):
    """An upgrade that cannot continue."""


def _rebuilt(kind: type[TidegateError], args: tuple[Any, ...], fields: dict[str, Any]) -> TidegateError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


def first_line(error: BaseException) -> str:
    """Return an exception's message in one line and without Java's stack: after "An error occurred while
    calling" comes the exception that Java raised."""
    lines = [line.lstrip(": ") for line in str(error).strip().splitlines()]
    message = lines[1:] if lines and lines[0].startswith("An error occurred while calling") else lines
    return message[0][:300] if message else type(error).__name__
