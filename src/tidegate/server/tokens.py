"""Tokens: who may call a server, and what for. On disk are hashes alone, in a file for its owner's eyes.

A token is 32 random bytes, so one round of SHA-256 is enough to hide it. `upgrade` may do what `operate` may,
and that what `read` may.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import stat
import threading
from enum import IntEnum
from pathlib import Path

import msgspec

from tidegate.errors import ConfigError, LogError
from tidegate.names import check_name

log = logging.getLogger("tidegate.server")

PREFIX = "tg_"
FORMAT = 1
_MODE = 0o600


class Scope(IntEnum):
    """What a token is good for; each includes those below."""

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
    """One token as it is kept."""

    name: str
    scope: str
    hash: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: int = FORMAT
    tokens: list[Entry] = []


class Tokens:
    """The file of tokens, read again when it changed: one that is removed is refused at once."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._entries: list[Entry] = []
        self.entries()

    def entries(self) -> list[Entry]:
        with self._lock:
            found = _stat(self._file)
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen != self._seen:
                self._entries = _read(self._file).tokens
                self._seen = seen
            return self._entries

    def knows(self, name: str) -> bool:
        """Whether somebody has a token still."""
        return any(entry.name == name for entry in self._usable())

    def usable(self) -> bool:
        """Whether the file can be read as it is now."""
        try:
            self.entries()
        except ConfigError:
            return False
        return True

    def find(self, token: str) -> Entry | None:
        """Whose token it is. All are compared, each in constant time."""
        asked = _hash(token)
        found = None
        for entry in self._usable():
            if hmac.compare_digest(entry.hash, asked):
                found = entry
        return found

    def _usable(self) -> list[Entry]:
        """To strangers it is no matter what is wrong with the file."""
        try:
            return self.entries()
        except ConfigError as error:
            log.error("tokens: %s", error)  # noqa: TRY400 - no stack is needed
            raise LogError("not-ready", "tokens cannot be checked", "ask later", retryable=True) from None


def add_token(file: Path, name: str, scope: Scope) -> str:
    """Make a token: the one time that it is seen."""
    check_name("token", name)
    kept = _read(file) if file.exists() else _File()
    if any(entry.name == name for entry in kept.tokens):
        raise ConfigError("token-exists", f"there is a token {name!r} already", "remove it first")
    token = PREFIX + secrets.token_urlsafe(32)
    _write(file, [*kept.tokens, Entry(name, scope.name.lower(), _hash(token))])
    return token


def remove_token(file: Path, name: str) -> None:
    kept = _read(file).tokens
    left = [entry for entry in kept if entry.name != name]
    if len(left) == len(kept):
        raise ConfigError("no-such-token", f"there is no token {name!r}", "tidegate tokens list")
    _write(file, left)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _stat(file: Path) -> os.stat_result:
    try:
        found = file.stat()
    except OSError as error:
        raise ConfigError(
            "no-tokens", f"the file of tokens cannot be used: {error.strerror}", "tidegate tokens add NAME"
        ) from None
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError("tokens-exposed", "others may read the file of tokens", "chmod 600 it")
    return found


def _read(file: Path) -> _File:
    _stat(file)
    try:
        found = msgspec.json.decode(file.read_bytes(), type=_File)
        for entry in found.tokens:
            Scope.of(entry.scope)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            "bad-tokens", f"the file of tokens cannot be read: {error}", "make it anew"
        ) from None
    if found.format != FORMAT:
        raise ConfigError("bad-tokens", f"the file of tokens has format {found.format}", "update tidegate")
    return found


def _write(file: Path, entries: list[Entry]) -> None:
    """Whole or not at all, and for nobody else to read at any moment."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE), "wb") as opened:
        opened.write(msgspec.json.format(msgspec.json.encode(_File(tokens=entries))))
        opened.flush()
        os.fsync(opened.fileno())
    new.replace(file)
