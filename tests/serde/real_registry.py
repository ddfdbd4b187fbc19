"""A real schema registry for tests: Apicurio Registry with its storage in memory, on loopback.

It comes from Maven Central as one archive of 160 MB, is checked by its hash and kept in the cache beside
the jars of the broker. It needs Java 21; `java_21` finds one or gives None, and the tests are skipped then.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.waiting import wait_for

from tidegate.testing.broker.config import SMALL_JVM
from tidegate.testing.broker.guard import GuardedProcess
from tidegate.testing.broker.jars import cache, locked, new_folder
from tidegate.testing.broker.ports import LOOPBACK, answers, free_ports
from tidegate.testing.broker.tools import maven

VERSION = "3.3.3"
SHA256 = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
JVMS = Path("/usr/lib/jvm")


def java_21() -> str | None:
    """The command of a Java that is new enough, or None."""
    homes = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    found = [str(home / "bin" / "java") for home in [*homes, *sorted(JVMS.glob("*"))]]
    for java in filter(shutil.which, ["java", *found]):
        reported = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
        number = re.search(r'version "(\d+)', reported)
        if number and int(number[1]) >= 21:
            return java
    return None


@contextmanager
def real_registry(java: str, folder: Path) -> Iterator[dict[str, Any]]:
    """The settings of a registry that runs until the block ends."""
    port, management = free_ports(2)
    options = {
        "quarkus.http.host": LOOPBACK,
        "quarkus.http.port": port,
        "quarkus.management.host": LOOPBACK,
        "quarkus.management.port": management,
        "java.io.tmpdir": folder,
    }
    settings = [f"-D{name}={value}" for name, value in options.items()]
    command = [java, *SMALL_JVM, *settings, "-jar", str(fetch_registry() / "quarkus-run.jar")]
    with (folder / "registry.log").open("wb") as log:
        process = GuardedProcess(command, stdout=log, stderr=log, cwd=folder)
    try:
        wait_for(lambda: answers(port) or not process.running)
        assert process.running, (folder / "registry.log").read_text()[-2000:]
        url = f"http://{LOOPBACK}:{port}/apis/ccompat/v7"
        _put(f"{url}/config", {"compatibility": "BACKWARD"})
        yield {"url": url}
    finally:
        process.signal(signal.SIGKILL)
        process.wait()


def fetch_registry() -> Path:
    """The folder with the registry, fetched if it is not there."""
    folder = cache() / f"registry-{SHA256[:16]}"
    with locked(folder):
        if not folder.exists():
            with new_folder(folder) as fresh:
                get = ["-q", "-B", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={fresh}"]
                subprocess.run([maven(), *get], check=True, cwd=fresh)
                [archive] = fresh.glob("*.tar.gz")
                assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256
                with tarfile.open(archive) as packed:
                    packed.extractall(fresh, filter="data")
                archive.unlink()
    return folder


def _put(url: str, body: dict[str, str]) -> None:
    head = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), head, method="PUT")  # noqa: S310
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - loopback
        assert answer.status == 200
