"""The files of the dashboard: `make dashboard` builds them from `dashboard/` into `ui/`, beside this module.

They hold no data, so they need no token. Files in `assets/` have a hash of their content in their name and
may be kept for a year; a browser checks all others with each use. A file is read again when it has changed
on disk, and is compressed once.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tidegate.server.errors import RequestError

FOLDER = Path(__file__).parent / "ui"
INDEX = "index.html"
ASSETS = "assets/"
_NAME = re.compile(r"(assets/)?[A-Za-z0-9_-][A-Za-z0-9._-]{0,200}")
_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
_COMPRESSED_ALREADY = (".png", ".woff2")
_LEAST_TO_COMPRESS = 1024


@dataclass(frozen=True, slots=True)
class DashboardFile:
    """One file, ready to be sent."""

    body: bytes
    compressed: bytes | None
    """As gzip; None if that is not smaller."""
    etag: str
    media_type: str
    cache_control: str


def dashboard_file(folder: Path, path: str) -> DashboardFile:
    """Return the file at a path below `/ui/`, as it is in the URL. A path that is no file is a page of the
    dashboard, which finds out by itself what to show: it is the index. Raises RequestError `no-such-asset`
    for a missing file in `assets/`, and `no-dashboard` while there is no index."""
    if _NAME.fullmatch(path) and path != INDEX and (found := _read(folder / path)) is not None:
        return found
    if path.startswith(ASSETS):
        raise RequestError(
            "no-such-asset",
            f"the dashboard of this server has no file {path[:80]!r}",
            "reload the page: the server was updated",
        )
    index = _read(folder / INDEX)
    if index is None:
        raise RequestError(
            "no-dashboard",
            "this installation of tidegate has no dashboard",
            "build it with: make dashboard; or use the command line",
        )
    return index


def _read(file: Path) -> DashboardFile | None:
    try:
        found = file.stat()
    except OSError:
        return None
    if not file.is_file() or file.suffix not in _MEDIA_TYPES:
        return None
    return _loaded(file, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=256)
def _loaded(file: Path, _changed: int, _size: int) -> DashboardFile:
    body = file.read_bytes()
    small = None
    if len(body) >= _LEAST_TO_COMPRESS and file.suffix not in _COMPRESSED_ALREADY:
        small = gzip.compress(body, 9, mtime=0)
    immutable = file.parent.name == ASSETS.rstrip("/")
    return DashboardFile(
        body,
        small if small is not None and len(small) < len(body) else None,
        f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        _MEDIA_TYPES[file.suffix],
        "public, max-age=31536000, immutable" if immutable else "no-cache",
    )
