"""Remove a recalculation: also one that was killed, or that still runs somewhere.

1 fence it: open its driver's writer and those of its last plan; 2 delete its topics, the control topic last,
so that a removal that was killed is repeated; 3 delete its state folder on this host.

Folders on other hosts of a cluster stay until the next preview runs there; nothing in them is ever used
again, since the changelogs that they were built from are gone.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tidegate.clock import Clock
from tidegate.errors import LogError
from tidegate.log import names
from tidegate.log.ensure import find_topic
from tidegate.log.faultpoints import reach
from tidegate.log.protocol import Log
from tidegate.runtime.driver.reset import SILENT_SECONDS, find_holder
from tidegate.runtime.driver.takeover import take_over


def remove_preview(
    log: Log, app: str, state_dir: Path | None, clock: Clock, *, own: str | None = None
) -> bool:
    """Remove what a preview of an app left. Returns whether there was anything. `own` is the uid of the
    control topic of the caller's own preview: nothing is removed once a newer preview has replaced it."""
    return remove_recalculation(log, names.preview(app), state_dir, clock, own=own)


def remove_recalculation(
    log: Log, preview: str, state_dir: Path | None, clock: Clock, *, own: str | None = None
) -> bool:
    """As `remove_preview`, by the id of the throw-away app."""
    control = names.control(preview)
    if own is not None and not _is_there(log, control, own):
        return False
    topics = _topics(log, preview)
    if control in topics:
        reach("remove-preview.1")
        take_over(log, preview, 1, clock).close()
        topics = [*(topic for topic in _topics(log, preview) if topic != control), control]
    for topic in topics:
        reach("remove-preview.2")
        if own is not None and not _is_there(log, control, own):
            return False
        delete_topic(log, topic)
    reach("remove-preview.3")
    folder = None if state_dir is None else state_dir / preview
    if folder is not None and folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
        return True
    return bool(topics)


def remove_killed_preview(log: Log, app: str, state_dir: Path, clock: Clock) -> bool:
    """Remove what a preview of an app left, unless one of its slots reported within the last seconds."""
    preview = names.preview(app)
    if not _topics(log, preview) and not (state_dir / preview).exists():
        return False
    holder = find_holder(log, preview, clock)
    ago = None if holder is None else holder.last_report_ms
    if ago is not None and ago < 1000 * SILENT_SECONDS:
        return False
    return remove_preview(log, app, state_dir, clock)


def state_folder(folder: Path, state_dir: str) -> Path:
    """Return the folder of the state on this host."""
    return Path(folder) / (os.environ.get("TIDEGATE_STATE_DIR") or state_dir)


def _topics(log: Log, preview: str) -> list[str]:
    return sorted(topic for topic in log.names() if topic.startswith(f"{preview}-"))


def _is_there(log: Log, topic: str, uid: str) -> bool:
    info = find_topic(log, topic)
    return info is not None and info.uid == uid


def delete_topic(log: Log, topic: str) -> None:
    """Delete a topic, if there is one."""
    try:
        log.delete(topic)
    except LogError as error:
        if error.code != "no-such-topic":
            raise
