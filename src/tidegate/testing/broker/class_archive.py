"""An archive of the classes that a broker loads (class data sharing): a JVM starts with less work.

It is kept beside the jars, for one Java and one class path, and used by every JVM of that class path, or of
one that begins with it. Without it all works as well, only more slowly.
"""

from __future__ import annotations

import functools
import hashlib
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tidegate.testing.broker.jars import cache, classpath, locked
from tidegate.testing.broker.tools import java

ARCHIVE = "classes-of-broker-{}.jsa"
_NO_LOG = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")


def shared_classes() -> Sequence[str]:
    """The options of a JVM with the broker's class path; none if there is no archive."""
    if not any(cache().glob(ARCHIVE.format("*"))):
        return ()
    found = archive()
    return use_archive(found) if found.exists() else ()


def use_archive(file: Path) -> Sequence[str]:
    """Return the JVM options that load an archive. A JVM that cannot use it ignores it silently."""
    return (f"-XX:SharedArchiveFile={file}", "-Xshare:auto", *_NO_LOG)


def make_archive(file: Path, run: Callable[[Sequence[str]], None]) -> None:
    """Have `run` start and end a JVM with options that write the file when it ends. Several processes may
    call this; one does it."""
    with locked(file):
        if not file.exists():
            new = file.with_suffix(".new")
            new.unlink(missing_ok=True)
            run((f"-XX:ArchiveClassesAtExit={new}", *_NO_LOG))
            if new.exists():  # some JVMs cannot write one
                new.rename(file)


@functools.cache
def archive() -> Path:
    """Return the path of the broker's archive."""
    content = f"{java_version()}\n{classpath()}"
    return cache() / ARCHIVE.format(hashlib.sha256(content.encode()).hexdigest()[:16])


@functools.cache
def java_version() -> str:
    return subprocess.run([java(), "-version"], capture_output=True, text=True, check=True).stderr  # noqa: S603
