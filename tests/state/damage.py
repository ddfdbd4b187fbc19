"""Flipped bits in real LMDB files."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.state.inspect import opened, rows_of
from tidegate.state.keys import stored_key

PAGE = os.sysconf("SC_PAGE_SIZE")


def damage_row(folder: Path, store: str, key: bytes) -> None:
    """Flip a bit of the value of a row, in each copy of its page."""
    flip_end(folder, row_in(folder, store, key))


def row_in(folder: Path, store: str, key: bytes) -> bytes:
    """A row as it lies in the file. Not for a folder that this process holds."""
    with opened(folder) as environment:
        metadata = environment.metadata()
        assert metadata is not None
        value = rows_of(environment, metadata, store).get(key)
    assert value is not None, f"{store} has no row {key!r}"
    return stored_key(key, b"") + value


def flip_end(folder: Path, row: bytes) -> None:
    damage(folder, row, row[:-1] + bytes([row[-1] ^ 1]))


def damage_metadata(folder: Path) -> None:
    """What the folder holds of itself cannot be decoded any more."""
    damage(folder, b'{"app":', b'{"app"?')


def damage_so_that_readers_die(folder: Path, key: bytes) -> None:
    """Rows of a page lie far behind the end of the file."""
    content = bytearray(data_of(folder))
    for start in page_of(bytes(content), stored_key(key, b"")):
        for place in range(17, 33, 2):
            content[start + place] |= 0x80
    (folder / "data.mdb").write_bytes(content)


def damage(folder: Path, what: bytes, by: bytes) -> None:
    """Replace some bytes of the file, in place: a task may have it open."""
    content = data_of(folder)
    assert what in content, f"{what!r} is not in the file"
    assert len(what) == len(by)
    with (folder / "data.mdb").open("r+b") as file:
        at = content.find(what)
        while at >= 0:
            file.seek(at)
            file.write(by)
            at = content.find(what, at + 1)


def data_of(folder: Path) -> bytes:
    return (folder / "data.mdb").read_bytes()


def page_of(content: bytes, what: bytes) -> list[int]:
    """Where the pages begin that hold some bytes."""
    places, at = [], content.find(what)
    while at >= 0:
        places.append(at // PAGE * PAGE)
        at = content.find(what, at + 1)
    assert places, f"{what!r} is not in the file"
    return sorted(set(places))
