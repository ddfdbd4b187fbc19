"""The name of this host, and the state on it."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from tidegate.errors import StateError
from tidegate.state.inspect import find_newest, homes_below

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def host_name() -> str:
    """Return the name under which state is found again. TIDEGATE_HOST, if set, replaces the machine's own
    name: two workers on one machine with separate folders are two hosts."""
    return os.environ.get("TIDEGATE_HOST") or socket.gethostname()


def machine_name() -> str:
    """Return a name that all processes of one machine share, and no other machine has."""
    with suppress(OSError):
        return _BOOT.read_text().strip()
    return socket.gethostname()


def folders_here(state_dir: Path, app: str) -> dict[str, int]:
    """Return the tasks whose state is on this host, with the sum of their changelog offsets. A folder that
    cannot be read counts as none: its task is restored."""
    held: dict[str, int] = {}
    for home in homes_below(state_dir, app):
        with suppress(StateError, OSError, ValueError):
            found = find_newest(home)
            if found is not None:
                held[str(found.metadata.task)] = sum(found.metadata.offsets.values())
    return held
