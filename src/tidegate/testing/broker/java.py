"""Java programs beside the broker: compiled once, run as processes of their own.

For comparisons with the real Kafka Streams: a program gets its arguments on the command line, prints JSON
lines on stdout, logs on stderr, and ends cleanly on SIGTERM.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tidegate.errors import ConfigError
from tidegate.testing.broker.class_archive import shared_classes
from tidegate.testing.broker.config import SMALL_JVM
from tidegate.testing.broker.jars import HOME, cache, classpath, locked, new_folder
from tidegate.testing.broker.program import Program
from tidegate.testing.broker.tools import java, javac


def compiled(sources: Sequence[Path]) -> Path:
    """The folder with the classes of these sources: compiled against the broker's jars, kept by content."""
    content = hashlib.sha256(classpath().encode())
    for source in sources:
        content.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    folder = cache() / f"classes-{content.hexdigest()[:16]}"
    with locked(folder):
        if not folder.exists():
            with new_folder(folder) as fresh:
                _compile(sources, fresh)
    return folder


def _compile(sources: Sequence[Path], into: Path) -> None:
    options = ["--release", "17", "-Xlint:deprecation,unchecked", "-Werror", "-proc:none"]
    command = [javac(), *options, "-d", str(into), "-cp", classpath(), *map(str, sources)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if ran.returncode != 0:
        names = ", ".join(source.name for source in sources)
        raise ConfigError("java-source", f"{names} did not compile:\n{ran.stdout}{ran.stderr}")


def run_java(
    sources: Sequence[Path], arguments: Sequence[str], folder: Path, *, jvm: Sequence[str] = SMALL_JVM
) -> Program:
    """Compile if needed and start; the main class is the first source's name. What it unpacks goes to
    `<folder>/tmp`."""
    main = sources[0].stem
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    command = [
        java(),
        *jvm,
        *shared_classes(),
        f"-Djava.io.tmpdir={folder / 'tmp'}",
        f"-Dlog4j2.configurationFile={HOME / 'log4j2.properties'}",
        "-cp",
        os.pathsep.join([classpath(), str(compiled(sources))]),
        main,
        *arguments,
    ]
    return Program(main, command, folder)
