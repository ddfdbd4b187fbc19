"""Spark's classes in an archive (class data sharing): a JVM that starts from it needs far less CPU.

The first JVM of a Java and a Spark writes the archive when it ends, and the next ones read it. It lies in the
user's cache and may be deleted at any time. Without it all works as well, only more slowly.
"""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path

import pyspark

_NO_LOG = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_OF_JAVA = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_SET_BY_USER = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")


class ClassArchive:
    """The archive of one Java and one Spark, as one process uses it."""

    def __init__(self, java: str, conf: str = "") -> None:
        """`java` is what `java -version` prints, `conf` the Java options that the user set for Spark."""
        content = f"{java}\n{pyspark.__version__}\n{sys.prefix}"
        self.path = _cache() / f"classes-of-spark-{hashlib.sha256(content.encode()).hexdigest()[:16]}.jsa"
        self._new = self.path.with_suffix(f".{os.getpid()}")
        options = [conf, *(os.environ.get(name, "") for name in _OF_JAVA)]
        self._usable = "Server VM" in java and not any(
            name in text for name in _SET_BY_USER for text in options
        )

    def options(self, *, write: bool) -> str:
        """Return the Java options that read the archive; or with `write` those that write it, if there is
        none yet. Empty if neither is possible: the user's own options win."""
        if not self._usable:
            return ""
        if self.path.exists():
            return f"-XX:SharedArchiveFile={self.path} -Xshare:auto {_NO_LOG}"
        if not write or " " in str(self._new):
            return ""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._remove_leftovers()
        except OSError:
            return ""
        return f"-XX:ArchiveClassesAtExit={self._new} {_NO_LOG}"

    def _remove_leftovers(self) -> None:
        """Remove what JVMs wrote whose process did not wait for them."""
        for file in self.path.parent.glob(f"{self.path.stem}.[0-9]*"):
            if not Path("/proc", file.suffix[1:]).exists() or file == self._new:
                file.unlink(missing_ok=True)

    def keep(self) -> None:
        """Keep what the JVM wrote. Only after it has ended by itself: else the file may not be whole."""
        with suppress(OSError):
            self._new.replace(self.path)

    def discard(self) -> None:
        """Remove what a JVM wrote that did not end by itself."""
        with suppress(OSError):
            self._new.unlink(missing_ok=True)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate"
