"""The encoding of keys in LMDB: in the order of their bytes, at most 511 bytes long, never empty.

A row's key has two parts: the user's key and a suffix of fixed length (none, or a window's or session's
times). What is stored is the escaped key, a terminator and the suffix: so a scan of `k` never reads rows of
`k\\0...`, whatever the suffix. An escaped key above 400 bytes is stored as its first 400 bytes, a marker and
a hash; all such keys with the same first 400 bytes are adjacent, and a scan sorts them by the full key, which
is stored in the value."""

from __future__ import annotations

import hashlib

TERMINATOR = b"\x00\x00"
LONG_FROM = 400
LONG_MARK = b"\xff"
_HASH_BYTES = 32
_AFTER_GROUP = LONG_MARK + b"\xff" * 64

Bound = tuple[bytes, bytes]
"""A key and a suffix: where a scan begins or (exclusive) ends."""


def escape(key: bytes) -> bytes:
    """Escape the key so that it contains no terminator; the order of keys stays the same."""
    return key.replace(b"\x00", b"\x00\xff") if b"\x00" in key else key


def stored_key(key: bytes, suffix: bytes) -> bytes:
    """Return the LMDB key of a row."""
    escaped = escape(key)
    if len(escaped) <= LONG_FROM:
        return escaped + TERMINATOR + suffix
    digest = hashlib.blake2b(key, digest_size=_HASH_BYTES).digest()
    return escaped[:LONG_FROM] + LONG_MARK + digest + suffix


def is_long(key: bytes) -> bool:
    """Whether the row stores its full key in its value."""
    return len(key) > LONG_FROM or (len(key) * 2 > LONG_FROM and len(escape(key)) > LONG_FROM)


def split_stored(stored: bytes) -> tuple[bytes, bytes] | None:
    """Return the key and suffix of a stored key, or None if the full key is in the value."""
    end = stored.find(TERMINATOR, 0, LONG_FROM + len(TERMINATOR))
    if end < 0:
        return None
    key = stored[:end]
    return (key.replace(b"\x00\xff", b"\x00") if b"\x00" in key else key), stored[end + 2 :]


def group_of(stored: bytes) -> bytes:
    """Return the prefix that all long keys of one group share."""
    return stored[: LONG_FROM + 1]


def first_from(bound: Bound) -> bytes:
    """Return a stored key such that no row at or above the bound is before it."""
    key, suffix = bound
    return escape(key)[:LONG_FROM] + LONG_MARK if is_long(key) else stored_key(key, suffix)


def last_below(bound: Bound) -> bytes:
    """Return a stored key such that no row below the bound is at or after it."""
    key, suffix = bound
    return escape(key)[:LONG_FROM] + _AFTER_GROUP if is_long(key) else stored_key(key, suffix)


def after_prefix(prefix: bytes) -> bytes | None:
    """Return the first key after all that start with the prefix, or None if there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None
