"""Import projects, each in a process of its own, since many of them patch libraries.

Run as a program it reads one request per line and forks: a process without threads can do that safely, and a
fork is faster than a new interpreter."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
from tests.fingerprint.folder import OnlyBelow, imported, write

from tidegate.fingerprint import Fingerprints


class Request(msgspec.Struct):
    folder: str
    files: dict[str, str]


class Observed(msgspec.Struct):
    digest: str
    again: str
    """The digest of a second fingerprint in the same process."""
    result: str
    """What the root returns, or its error."""


def observe(folder: Path, files: dict[str, str]) -> Observed:
    write(folder, files)
    with imported(folder) as load:
        root = load("main").root
        digest = Fingerprints(project=OnlyBelow(folder)).of(root).digest
        again = Fingerprints(project=OnlyBelow(folder)).of(root).digest
        try:
            result = repr(root(3))
        except Exception as error:  # noqa: BLE001 - some edits make it fail
            result = repr(error)
    return Observed(digest, again, result)


def serve() -> None:
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                request = msgspec.json.decode(line, type=Request)
                found = observe(Path(request.folder), request.files)
                os.write(1, msgspec.json.encode(found) + b"\n")
                status = 0
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        if status:
            os.write(1, b"\n")


if __name__ == "__main__":
    serve()
