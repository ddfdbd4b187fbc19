"""How often a task's folder was opened by processes that died with it open.

A damaged page can end the process that reads it, and the next one, and so on: nobody is left to mark the
folder. So each start leaves a byte in a file, which goes when the folder is let go of, however that comes, or
after a minute of work. Whoever finds that three processes died in a row reads the folder in a process of its
own first.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tidegate.errors import StateError
from tidegate.state.verify import verify_all

STARTS = "starts"
CALM_SECONDS = 60.0
_SUSPICIOUS = 3


def reason_after_deaths(folder: Path) -> str | None:
    """Note a start. Why the folder must be discarded, if processes died over it and it is damaged."""
    file = folder / STARTS
    reason = None
    with suppress(OSError):
        if file.exists() and file.stat().st_size >= _SUSPICIOUS:
            reason = _damage(folder)
            file.unlink()
        with file.open("ab") as starts:
            starts.write(b".")
    return reason


def forget_starts(folder: Path) -> None:
    """The folder did no harm."""
    with suppress(OSError):
        (folder / STARTS).unlink(missing_ok=True)


def _damage(folder: Path) -> str | None:
    if not (folder / "data.mdb").exists():
        return None
    try:
        [found] = verify_all([folder])
    except StateError:
        return None  # it cannot be looked at from here: as before
    stores = "; ".join(f"{store}: {what}" for store, what in found.damaged.items())
    what = found.problem or stores
    return f"three processes died with it open, and it is damaged ({what})" if what else None
