"""Where Java, its compiler and Maven are; named errors where they are not."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from tidegate.errors import ConfigError

OLDEST_JAVA = 17


def java() -> str:
    """The command `java`, 17 or newer."""
    return _of_java("java", "openjdk-17-jre-headless")


def javac() -> str:
    """The command `javac`, 17 or newer."""
    return _of_java("javac", "openjdk-17-jdk-headless")


def maven() -> str:
    """The command `mvn`; it needs a Java of its own, which is looked for too."""
    java()
    found = shutil.which("mvn")
    if found is None:
        raise ConfigError(
            "no-maven",
            "Kafka's jars are fetched with Maven, and no mvn is found",
            "sudo apt-get install maven",
        )
    return found


@functools.cache
def _of_java(command: str, package: str) -> str:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / command) if home else shutil.which(command)
    hint = f"sudo apt-get install {package}, or set JAVA_HOME"
    try:
        version_text = subprocess.run([str(found), "-version"], capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        raise ConfigError(
            "no-java", f"Kafka needs Java {OLDEST_JAVA} or newer, and no {command} is found", hint
        ) from None
    number = re.search(r"(\d+)", version_text.stdout + version_text.stderr)
    version = int(number[1]) if number else 0
    if version < OLDEST_JAVA:
        raise ConfigError("old-java", f"Kafka needs Java {OLDEST_JAVA} or newer; {found} is {version}", hint)
    return str(found)
