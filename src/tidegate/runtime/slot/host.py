"""Which host this is, and what state lies on it."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from tidegate.errors import StateError
from tidegate.state.inspect import find_newest, homes_below

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def host_name() -> str:
    """The name under which state is found again. TIDEGATE_HOST, if set, stands for the machine's own name:
    two workers on one machine with folders of their own are two hosts."""
    return os.environ.get("TIDEGATE_HOST") or socket.gethostname()


def machine_name() -> str:
    """The same for all processes of one machine, and of no other."""
    with suppress(OSError):
        return _BOOT.read_text().strip()
    return socket.gethostname()


def folders_here(state_dir: Path, app: str) -> dict[str, int]:
    """Tasks whose state lies here, with the sum of their changelog offsets. A folder that cannot be read
    counts as none: its task is restored."""
    held: dict[str, int] = {}
    for home in homes_below(state_dir, app):
        with suppress(StateError, OSError, ValueError):
            found = find_newest(home)
            if found is not None:
                held[str(found.metadata.task)] = sum(found.metadata.offsets.values())
    return held
