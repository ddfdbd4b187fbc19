"""Tokens: the version of an id that a client holds. Opaque to clients; a token of another id is found out.

3-17-9f86d081884c7d659a2feaa0c55ad015-1b4f0e98     life, sequence, hash, check
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from tidegate.errors import ConfigError

LONGEST = 256
HASH = re.compile(r"[A-Za-z0-9._~-]{0,128}")
"""What a hash may consist of: it is part of URLs and headers."""
_TOKEN = re.compile(r"(0|[1-9][0-9]{0,17})-(0|[1-9][0-9]{0,17})-([A-Za-z0-9._~-]{0,128})-([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class Token:
    """A version of an id."""

    life: int
    sequence: int
    hash: str

    def text(self, id: str) -> str:
        version = f"{self.life}-{self.sequence}-{self.hash}"
        return f"{version}-{_check(id, version)}"


def is_token(text: str) -> bool:
    """Whether it has the form of a token."""
    return len(text) <= LONGEST and _TOKEN.fullmatch(text) is not None


def parse_token(id: str, text: str) -> Token | None:
    """Return the version; None if it is one of another id. Raises ConfigError `bad-token`."""
    found = _TOKEN.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        raise ConfigError(
            "bad-token", f"{text[:80]!r} is not a token", "send the token of a response unchanged, or none"
        )
    life, sequence, hashed, check = found.groups()
    if check != _check(id, text[: -len(check) - 1]):
        return None
    return Token(int(life), int(sequence), hashed)


def _check(id: str, version: str) -> str:
    return hashlib.sha256(f"{len(id)}:{id}:{version}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
