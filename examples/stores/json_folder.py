"""A store of one's own with a changelog: a folder with one small JSON file per row, to read with any editor.

    notes = stores.key_value("notes", Json[Note]()).backed_by(JsonFolder)

A folder of files cannot commit an offset together with its rows. It need not: tidegate keeps the offset in a
file beside it, written after `flush`. After a crash the rows may be ahead of that offset; the changelog from
there on is applied again, and every row ends as it was.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

from tidegate.stores import Bound, RawRow, StoreContext, Token

LONGEST_NAME = 250


class JsonFolder:
    """Rows as files: the quoted key is the file's name, the value its contents. For short keys."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._suffix = 0
        self._unsynced: set[Path] = set()

    def open(self, context: StoreContext) -> None:
        self._folder = context.folder
        self._suffix = context.suffix
        for left in self._folder.glob("*.tmp"):
            left.unlink()

    def get(self, key: bytes) -> bytes | None:
        try:
            return self._path(key).read_bytes()
        except FileNotFoundError:
            return None

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def scan(
        self, lower: Bound | None, upper: Bound | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        names = (path.name.removesuffix(".json") for path in self._rows())
        places = sorted((self._split(unquote_to_bytes(name)) for name in names), reverse=reverse)
        for place in places:
            if (lower is None or place >= lower) and (upper is None or place < upper):
                key = b"".join(place)
                yield key, self._path(key).read_bytes()

    def apply(self, rows: Iterable[RawRow], token: Token) -> None:  # noqa: ARG002 - no other host comes here
        """Write the rows. Each file is replaced whole, so a crash leaves the old value or the new one."""
        for key, value in rows:
            path = self._path(key)
            if value is None:
                path.unlink(missing_ok=True)
                self._unsynced.discard(path)
            else:
                draft = path.with_name(path.name.removesuffix(".json") + ".tmp")
                draft.write_bytes(value)
                draft.replace(path)
                self._unsynced.add(path)

    def clear(self) -> None:
        for path in self._rows():
            path.unlink()
        self._unsynced.clear()

    def flush(self) -> None:
        """Bring to the disk what was applied: the files, then the folder that names them."""
        for path in [*self._unsynced, self._home()]:
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        self._unsynced.clear()

    def close(self) -> None:
        """Nothing is held open. May come without `open`, after a failure."""

    def _rows(self) -> list[Path]:
        return list(self._home().glob("*.json"))

    def _split(self, key: bytes) -> Bound:
        """Rows are ordered by key, then suffix: the time of a window or session."""
        cut = len(key) - self._suffix
        return key[:cut], key[cut:]

    def _path(self, key: bytes) -> Path:
        name = f"{quote(key, safe='')}.json"
        if len(name) > LONGEST_NAME:
            raise ValueError(f"a key of {len(key)} bytes is too long for a file's name")
        return self._home() / name

    def _home(self) -> Path:
        if self._folder is None:
            raise RuntimeError("the store is not open")
        return self._folder
