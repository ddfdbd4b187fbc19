"""What a power cut may leave of a folder: files as of their last fsync or later, names likewise."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import count
from pathlib import Path


class Disk:
    """Watches one folder of the real file system. Its `fsync` remembers what is durable from then on.

    The content of a file that was written and not synced may be whole, half or missing after a power cut; a
    name that was changed and not synced may be there or not. Files are distinguished by inode.
    """

    def __init__(self, folder: Path, images: Path) -> None:
        self._folder = folder
        self._images = images
        self._numbers = count()
        self._names: dict[str, int] = {}
        self._contents: dict[int, bytes] = {}
        self.settle()

    def fsync(self, handle: int) -> None:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            self._names = self._names_now()
        else:
            for path in self._folder.iterdir():
                if path.stat().st_ino == found.st_ino:
                    self._contents[found.st_ino] = path.read_bytes()

    def settle(self) -> None:
        """All of it is durable."""
        self._names = self._names_now()
        self._contents = {path.stat().st_ino: path.read_bytes() for path in self._folder.iterdir()}

    def after_a_power_cut(self) -> Iterator[Path]:
        """Every folder that may be found then."""
        current = {path.stat().st_ino: path.read_bytes() for path in self._folder.iterdir()}
        for names in (self._names, self._names_now()):
            for share in (0.0, 0.5, 1.0):
                image = self._images / str(next(self._numbers))
                image.mkdir(parents=True)
                for name, inode in names.items():
                    written = current.get(inode, b"")
                    unsynced = written[: int(share * len(written))]
                    (image / name).write_bytes(self._contents.get(inode, unsynced))
                yield image

    def _names_now(self) -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in self._folder.iterdir()}
