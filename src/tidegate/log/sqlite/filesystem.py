"""Refuse network file systems: SQLite's locks and shared memory do not work on them."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.errors import LogError

NETWORK_TYPES = frozenset(
    ["9p", "afs", "afpfs", "beegfs", "ceph", "cifs", "davfs", "fuse.gcsfuse", "fuse.glusterfs"]
    + ["fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4"]
    + ["ocfs2", "orangefs", "smb2", "smb3", "smbfs", "webdav"]
)  # fmt: skip
MOUNTS = Path("/proc/self/mounts")


def refuse_network_file_system(path: Path, mounts: Path = MOUNTS) -> None:
    """Raise LogError if `path` lies on a network file system. Without a readable list of mounts, pass."""
    text = mounts.read_text(errors="surrogateescape") if mounts.exists() else ""
    kind = file_system_of(path.resolve(), text)
    if kind in NETWORK_TYPES:
        raise LogError(
            "network-file-system",
            f"{path} lies on a network file system ({kind}), where SQLite's locks do not work",
            "put the log on a local disk, or use a kafka:// log",
        )


def file_system_of(path: Path, mounts: str) -> str:
    """Return the file system type of an absolute path without links; `mounts` as in /proc/self/mounts."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(os.fsdecode(os.fsencode(fields[1]).decode("unicode_escape").encode("latin-1")))
        if (path == point or point in path.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[2]
    return kind
