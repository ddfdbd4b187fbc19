"""Kafka's own command-line tools, as users run them."""

from __future__ import annotations

import subprocess

from tidegate.errors import LogError
from tidegate.testing.broker.class_archive import shared_classes
from tidegate.testing.broker.config import SMALL_JVM
from tidegate.testing.broker.jars import HOME, classpath
from tidegate.testing.broker.tools import java

CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
"""What `kafka-consumer-groups.sh` runs."""


def run_tool(main: str, *arguments: str, timeout: float = 60.0) -> str:
    """Run a tool and return its stdout; raises with its output if it fails. Takes a second or two."""
    logging = f"-Dlog4j2.configurationFile={HOME / 'log4j2.properties'}"
    command = [java(), *SMALL_JVM, *shared_classes(), logging, "-cp", classpath(), main, *arguments]
    ran = subprocess.run(  # noqa: S603 - our own command
        command, capture_output=True, text=True, check=False, timeout=timeout
    )
    if ran.returncode != 0:
        raise LogError(
            "tool-failed", f"{main.rpartition('.')[2]}: {(ran.stdout + ran.stderr).strip()[-2000:]}"
        )
    return ran.stdout
