"""Count how many processes in a row died while they had a task's folder open.

A damaged page can crash the process that reads it, and the next one, and so on, before any of them can mark
the folder as damaged. So each start appends a byte to a file, which is deleted when the folder is released
for any reason, or after a minute of work. A process that finds three starts there first reads the folder in a
child process."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tidegate.errors import StateError
from tidegate.state.verify import verify_all

STARTS = "starts"
CALM_SECONDS = 60.0
_SUSPICIOUS = 3


def damage_after_crashes(folder: Path) -> str | None:
    """Count a start. Return why the folder must be discarded, if processes crashed with it and it is
    damaged."""
    file = folder / STARTS
    reason = None
    with suppress(OSError):
        if file.exists() and file.stat().st_size >= _SUSPICIOUS:
            reason = _damage(folder)
            file.unlink()
        with file.open("ab") as starts:
            starts.write(b".")
    return reason


def clear_starts(folder: Path) -> None:
    """Reset the count: the folder has not crashed this process."""
    with suppress(OSError):
        (folder / STARTS).unlink(missing_ok=True)


def _damage(folder: Path) -> str | None:
    if not (folder / "data.mdb").exists():
        return None
    try:
        [found] = verify_all([folder])
    except StateError:
        return None  # it cannot be checked now: use the folder as usual
    stores = "; ".join(f"{store}: {what}" for store, what in found.damaged.items())
    what = found.problem or stores
    return f"three processes died with it open, and it is damaged ({what})" if what else None
