"""The jars of the broker, its tools and Kafka Streams: fetched once with Maven, checked at every first use.

They are kept in the user's cache, in a folder named for the hash of `pom.xml`:
1. take the file lock beside that folder, so that one process fetches and the others wait;
2. copy the jars with Maven into a new folder;
3. compare names and hashes with `jars.sha256`: neither a jar more nor one less, nor another content;
4. rename the folder to its final name. A folder of that name is whole.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tidegate.errors import ConfigError
from tidegate.testing.broker.tools import maven

HOME = Path(__file__).parent
POM = HOME / "pom.xml"
HASHES = HOME / "jars.sha256"


def cache() -> Path:
    """Where jars and compiled programs are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidegate"


@functools.cache
def classpath() -> str:
    """All jars as Java's `-cp` wants them. The first call fetches them if needed, and checks them."""
    return os.pathsep.join(str(jar) for jar in sorted(resolved(cache()).glob("*.jar")))


def fetched() -> bool:
    """Whether they are in the cache already."""
    return _folder(cache()).exists()


def resolved(under: Path) -> Path:
    """The folder with the jars, fetched if it is not there, and checked."""
    folder = _folder(under)
    with locked(folder):
        if not folder.exists():
            with new_folder(folder) as fresh:
                fetch(fresh)
                check(fresh)
            return folder
    check(folder)
    return folder


def _folder(under: Path) -> Path:
    return under / f"broker-{hashlib.sha256(POM.read_bytes()).hexdigest()[:16]}"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let only one process at a time create `folder`; a lock dies with its process."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def new_folder(final: Path) -> Iterator[Path]:
    """A folder that gets its final name only if the block ends well."""
    fresh = Path(tempfile.mkdtemp(prefix=f"{final.name}.", dir=final.parent))
    try:
        yield fresh
        fresh.rename(final)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def fetch(into: Path) -> None:
    """Let Maven copy all jars of `pom.xml` into a folder."""
    command = [
        maven(),
        "-q",
        "-B",
        "-f",
        str(POM),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={into}",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if ran.returncode != 0:
        raise ConfigError(
            "no-jars",
            f"Maven could not fetch Kafka's jars: {(ran.stdout + ran.stderr).strip()[-2000:]}",
            "see that Maven reaches its repository: mvn dependency:get -Dartifact=org.slf4j:slf4j-api:1.7.36",
        )


def hashes_of(folder: Path) -> dict[str, str]:
    """Name -> sha256 of every jar in a folder."""
    return {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(folder.glob("*.jar"))}


def expected() -> dict[str, str]:
    """Name -> sha256 as shipped."""
    lines = (line.split() for line in HASHES.read_text().splitlines())
    return {name: digest for digest, name in lines}


def check(folder: Path) -> None:
    """Raise unless the folder holds exactly the jars that `jars.sha256` names."""
    found, wanted = hashes_of(folder), expected()
    wrong = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    if wrong:
        raise ConfigError(
            "wrong-jars",
            f"these jars in {folder} are missing, unknown or have another hash: {', '.join(wrong)}",
            f"delete {folder} to fetch them again",
        )
