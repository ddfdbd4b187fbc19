"""Read a task's folder to its last row, in a child process.

LMDB has no page checksums: most damage raises an error, but some damaged pages crash the process that reads
them. So a child process reads folder after folder; if it crashes, the current folder is damaged, and another
child process continues with the next one.

    python -m tidegate.state.verify     folders as JSON on stdin, a JSON object per folder on stdout
"""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import lmdb
import msgspec

from tidegate.errors import StateError
from tidegate.state.environment import DAMAGED, INTACT, Metadata, ReadOnlyEnvironment, StoreFacts
from tidegate.state.expiry import EndOf
from tidegate.state.formats import LAYOUTS, end_times
from tidegate.state.inspect import opened
from tidegate.state.keys import stored_key
from tidegate.state.lmdb_store import ends_database

_BY_DAMAGE = {signal.SIGABRT, signal.SIGBUS, signal.SIGSEGV, signal.SIGFPE, signal.SIGILL}


class Verified(msgspec.Struct, frozen=True):
    """The committed contents of one folder, and what is damaged."""

    folder: str
    metadata: Metadata | None = None
    problem: str = ""
    """Why the whole folder is unusable; empty if it is usable."""
    damaged: dict[str, str] = {}
    """What is wrong with stores, by name."""


def verify(folder: Path) -> Verified:
    """Read everything in a folder. May crash the process: see above."""
    metadata: Metadata | None = None
    damaged: dict[str, str] = {}
    try:
        with opened(folder) as environment:
            metadata = environment.metadata()
            for store, facts in sorted(metadata.stores.items() if metadata else ()):
                found = _damage(environment, store, facts)
                if found:
                    damaged[store] = found
    except StateError as error:
        return Verified(str(folder), metadata, error.message)
    except (lmdb.Error, OSError, KeyError, ValueError) as error:
        return Verified(str(folder), metadata, f"it cannot be read ({type(error).__name__}: {error})")
    marked = "" if damaged or not (folder / DAMAGED).exists() else "a damaged row was found in it"
    return Verified(str(folder), metadata, marked, damaged)


_verified = msgspec.json.Decoder(Verified)


def verify_all(folders: Sequence[Path]) -> list[Verified]:
    """Verify all folders in child processes, even if some of these crash."""
    found: list[Verified] = []
    while len(found) < len(folders):
        left = folders[len(found) :]
        child = subprocess.run(
            [sys.executable, "-m", "tidegate.state.verify"],
            input=msgspec.json.encode([str(folder) for folder in left]),
            capture_output=True,
            check=False,
        )
        lines = child.stdout.splitlines(keepends=True)
        found += [_verified.decode(line) for line in lines if line.endswith(b"\n")]
        if child.returncode == 0:
            continue
        if -child.returncode not in _BY_DAMAGE:
            last_line = child.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise StateError(
                "verify-failed",
                f"the process that reads the state ended with {child.returncode} {''.join(last_line)}",
                "run it again; nothing was changed",
                retryable=True,
            )
        if len(found) < len(folders):
            name = signal.Signals(-child.returncode).name
            problem = f"it cannot be read: that crashes the process ({name})"
            found.append(Verified(str(folders[len(found)]), None, problem))
    return found


def _damage(environment: ReadOnlyEnvironment, store: str, facts: StoreFacts) -> str:
    """Return what is wrong with a store's rows and their index; empty if nothing is."""
    if not environment.has(store):
        return ""
    try:
        return _damaged_rows(environment, store) or _damaged_index(environment, store, facts)
    except lmdb.Error as error:
        return f"its pages cannot be read ({error})"


def _damaged_rows(environment: ReadOnlyEnvironment, store: str) -> str:
    entries, count, bad, last = environment.rows(store), 0, 0, b""
    for stored, sealed in environment.txn.cursor(db=environment.database(store)):
        if stored <= last and count:
            return "its rows are out of order"
        count, last = count + 1, stored
        bad += crc32(stored + sealed) != INTACT
    if bad:
        return f"{bad:,} of {entries:,} rows do not match their checksum"
    return "" if count == entries else f"only {count:,} of {entries:,} rows can be read"


def _damaged_index(environment: ReadOnlyEnvironment, store: str, facts: StoreFacts) -> str:
    """Return what is wrong with the index by end time, which must have every row at its end time, and nothing
    else."""
    index = ends_database(store)
    if not environment.has(index):
        return ""
    suffix, end_of = LAYOUTS[facts.kind].suffix, end_times(facts.kind, facts.window)
    rows = environment.database(store)
    count, last = 0, b""
    for at, key in environment.txn.cursor(db=environment.database(index)):
        stored = stored_key(key[: len(key) - suffix], key[len(key) - suffix :])
        by_end = _by_end(end_of, key) + stored
        if (at <= last and count) or at != by_end or environment.txn.get(stored, db=rows) is None:
            return "its index by end time does not match its rows"
        count, last = count + 1, at
    return "" if count == environment.rows(store) else "its index by end time does not have all rows"


def _by_end(end_of: EndOf, key: bytes) -> bytes:
    """Return the end time in a row's key, as the index stores it; empty if no row can have that key."""
    try:
        return end_of(key).to_bytes(8, "big")
    except (OverflowError, struct.error):
        return b""


def main() -> None:
    """Run as the child process that reads."""
    for folder in msgspec.json.decode(sys.stdin.buffer.read(), type=list[str]):
        sys.stdout.buffer.write(msgspec.json.encode(verify(Path(folder))) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
