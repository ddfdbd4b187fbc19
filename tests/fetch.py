"""`python -m tests.fetch`: fetch, compile and build what tests use, with one line for each and its seconds.

What is there already costs a second. A test that finds jars or programs missing would fetch them itself,
unseen and in its own time limit; without the archives it only takes longer.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from scripts import build_client, build_dashboard
from tests import class_archives
from tests.kafka.streams import oracle
from tests.needs import missing_for_java, missing_for_java_programs, missing_for_kafka, missing_for_registry
from tests.semantics import play
from tests.serde.real_registry import fetch_registry

from tidegate.errors import ConfigError
from tidegate.testing.broker.jars import classpath
from tidegate.testing.broker.java import compiled


def main() -> int:
    """The exit code: 1 if something that can be fetched here was not."""
    steps: list[tuple[str, str | None, Callable[[], object]]] = [
        ("Kafka's jars (120 MB)", missing_for_kafka(), classpath),
        ("Java programs", missing_for_java_programs(), compile_programs),
        ("archives of Java classes", missing_for_java(), make_archives),
        ("npm packages (115 MB)", None, fetch_npm_packages),
        ("schema registry (160 MB)", missing_for_registry() or missing_for_kafka(), fetch_registry),
    ]
    try:
        for name, missing, fetch in steps:
            step(name, missing, fetch)
    except (ConfigError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def step(name: str, missing: str | None, fetch: Callable[[], object]) -> None:
    if missing:
        sys.stdout.write(f"{name}: left out: {missing}\n")
        return
    sys.stdout.write(f"{name} ...\n")
    sys.stdout.flush()
    began = time.monotonic()
    fetch()
    sys.stdout.write(f"{name}: {time.monotonic() - began:.0f} s\n")
    sys.stdout.flush()


def make_archives() -> None:
    class_archives.make_archives(kafka=missing_for_kafka() is None)


def fetch_npm_packages() -> None:
    """For the tests that build the client in TypeScript and the dashboard, and for axe."""
    for project in (build_client.PROJECT, build_dashboard.PROJECT):
        project.install()


def compile_programs() -> None:
    for source in (oracle.SOURCE, play.PROGRAM):
        compiled([source])


if __name__ == "__main__":
    sys.exit(main())
