"""Tokens: who may call a server, with which scope. The file holds hashes, and only its owner can read it.

A token is 32 random bytes, so one round of SHA-256 is enough. `upgrade` includes `operate`, which includes
`read`. What lasts longer than a request (a stream, a ticket) is bound to the hash: another
token may get the same name later.

A change of the file: 1 take the lock, a file beside it; 2 remove drafts that a killed process left, and read
the file; 3 write a draft with the change; 4 sync it; 5 rename it over the file; 6 sync the folder. A kill
before 5 leaves the old file, and the lock is free.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import logging
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

import msgspec

from tidegate.errors import ConfigError, LogError
from tidegate.log.faultpoints import reach
from tidegate.log.names import check_name

log = logging.getLogger("tidegate.server")

PREFIX = "tg_"
FORMAT = 1
LOCK_SECONDS = 10.0
_NAP_SECONDS = 0.01
_MODE = 0o600


class Scope(IntEnum):
    """What a token permits; each scope includes those below it."""

    READ = 1
    OPERATE = 2
    UPGRADE = 3

    @classmethod
    def of(cls, name: str) -> Scope:
        try:
            return cls[name.upper()]
        except KeyError:
            known = ", ".join(one.name.lower() for one in cls)
            raise ConfigError("bad-scope", f"there is no scope {name!r}", f"there are: {known}") from None


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One token in the file."""

    name: str
    scope: str
    hash: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int = FORMAT
    tokens: list[Entry] = []


_file = msgspec.json.Decoder(_File)


class Tokens:
    """The file of tokens, reloaded when it changes: a removed token is refused at once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._version: tuple[int, int, int] | None = None
        self._entries: list[Entry] = []
        self.entries()

    def entries(self) -> list[Entry]:
        with self._lock:
            found = _stat(self._file)
            version = (found.st_mtime_ns, found.st_size, found.st_ino)
            if version != self._version:
                self._entries = _read(self._file).tokens
                self._version = version
            return self._entries

    def of_hash(self, token_hash: str) -> Entry | None:
        """The entry of the token with this hash, unless it was removed."""
        return self.where(lambda entry: hmac.compare_digest(entry.hash, token_hash))

    def where(self, matches: Callable[[Entry], bool]) -> Entry | None:
        """The last entry that matches. Looks at all of them, so that the time reveals nothing."""
        found = None
        for entry in self._usable():
            if matches(entry):
                found = entry
        return found

    def usable(self) -> bool:
        """Whether the file can be read now."""
        try:
            self.entries()
        except ConfigError:
            return False
        return True

    def find(self, token: str) -> Entry | None:
        """The entry of a token. Compares all entries, each in constant time."""
        return self.of_hash(_hash(token))

    def _usable(self) -> list[Entry]:
        """The entries. Callers do not learn what is wrong with the file; the log of the server has it."""
        try:
            return self.entries()
        except ConfigError as error:
            log.error("tokens: %s", error)  # noqa: TRY400 - a stack trace adds nothing
            raise LogError(
                "not-ready",
                "tokens cannot be checked",
                "try again later; the log of the server has the cause",
                retryable=True,
            ) from None


def add_token(file: Path, name: str, scope: Scope) -> str:
    """Create a token and return it: only its hash is kept."""
    check_name("token", name)
    token = PREFIX + secrets.token_urlsafe(32)
    with _locked(file):
        kept = _read(file).tokens if file.exists() else []
        if any(entry.name == name for entry in kept):
            raise ConfigError("token-exists", f"there is a token {name!r} already", "remove it first")
        _write(file, [*kept, Entry(name, scope.name.lower(), _hash(token))])
    return token


def remove_token(file: Path, name: str) -> None:
    """Remove the token of this name: servers refuse it from the next request on."""
    _stat(file)
    with _locked(file):
        kept = _read(file).tokens
        left = [entry for entry in kept if entry.name != name]
        if len(left) == len(kept):
            raise ConfigError("no-such-token", f"there is no token {name!r}", "tidegate tokens list")
        _write(file, left)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Steps 1 and 2. The lock ends with the process that holds it."""
    reach("tokens.1")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file.with_name(f".{file.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
    except OSError as error:
        raise _unusable(error) from None
    try:
        _acquire(handle, file)
        reach("tokens.2")
        for left in file.parent.glob(_draft(file, "*")):
            left.unlink(missing_ok=True)
        yield
    except OSError as error:
        raise _unusable(error) from None
    finally:
        os.close(handle)


def _acquire(handle: int, file: Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ConfigError(
                    "tokens-busy",
                    f"another process holds the lock of {file.name} for more than {LOCK_SECONDS:g} s",
                    "look for a `tidegate tokens` that hangs, or try again",
                    retryable=True,
                ) from None
            time.sleep(_NAP_SECONDS)


def _draft(file: Path, ending: str) -> str:
    return f".{file.name}.draft-{ending}"


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _unusable(error: OSError) -> ConfigError:
    return ConfigError(
        "no-tokens",
        f"the file of tokens cannot be used: {error.strerror}",
        "create one with: tidegate tokens add NAME; or check the folder, its owner and mode",
    )


def _stat(file: Path) -> os.stat_result:
    try:
        found = file.stat()
    except OSError as error:
        raise _unusable(error) from None
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError("tokens-exposed", "other users can read the file of tokens", f"chmod 600 {file}")
    return found


def _read(file: Path) -> _File:
    _stat(file)
    try:
        found = _file.decode(file.read_bytes())
        for entry in found.tokens:
            Scope.of(entry.scope)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            "bad-tokens",
            f"the file of tokens cannot be read: {error}",
            "delete it and create tokens again with: tidegate tokens add NAME",
        ) from None
    if found.format != FORMAT:
        raise ConfigError("bad-tokens", f"the file of tokens has format {found.format}", "update tidegate")
    return found


def _write(file: Path, entries: list[Entry]) -> None:
    """Steps 3 to 6: atomically, and never readable by others."""
    draft = file.with_name(_draft(file, secrets.token_hex(4)))
    reach("tokens.3")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE), "wb") as opened:
        opened.write(msgspec.json.format(msgspec.json.encode(_File(tokens=entries))))
        opened.flush()
        reach("tokens.4")
        os.fsync(opened.fileno())
    reach("tokens.5")
    draft.replace(file)
    reach("tokens.6")
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
