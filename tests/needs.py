"""What tests need from outside, and what is missing of it here. `make test` installs it where it may."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable

import pytest
from tests.postgres import programs
from tests.serde.real_registry import java_21

from tidegate.errors import ConfigError
from tidegate.testing.broker.jars import fetched
from tidegate.testing.broker.tools import java, javac

SKIPPED = "no tests on a real Kafka: {reason}. Do: sudo apt-get install {packages}"
NO_MAVEN = SKIPPED.format(reason="no Maven to fetch it with", packages="maven openjdk-17-jdk-headless")


@functools.cache
def missing_for_java() -> str | None:
    """Why no JVM can be started, with what to install; None if one can be."""
    return None if _there(java) else SKIPPED.format(reason="no Java 17", packages="openjdk-17-jre-headless")


@functools.cache
def missing_for_kafka() -> str | None:
    """Why no broker can be started, with what to install; None if one can be."""
    if no_java := missing_for_java():
        return no_java
    if not fetched() and shutil.which("mvn") is None:
        return NO_MAVEN
    return None


@functools.cache
def missing_for_java_programs() -> str | None:
    """Why the programs that tests compare with cannot be compiled; None if they can be."""
    if _there(javac):
        return missing_for_kafka()
    return SKIPPED.format(reason="no javac", packages="openjdk-17-jdk-headless")


def missing_for_maven() -> str | None:
    """Why Maven cannot be run; None if it can be."""
    return None if shutil.which("mvn") else NO_MAVEN


def missing_for_compiled() -> str | None:
    """Why Kafka's records cannot be read and written in compiled loops; None if they can be."""
    from tidegate.log.kafka.bulk import bulk

    reason = bulk().reason
    return f"no tests of compiled loops: {reason}. Do: pip install ./native" if reason else None


def missing_for(item: pytest.Item) -> str | None:
    """Why a test cannot run here: the fixtures that it uses name what it needs."""
    used = getattr(item, "fixturenames", ())
    needs: dict[str, Callable[[], str | None]] = {
        "maven": missing_for_maven,
        "kafka_jars": missing_for_kafka,
        "java_programs": missing_for_java_programs,
        "compiled": missing_for_compiled,
    }
    return next((reason for name, missing in needs.items() if name in used and (reason := missing())), None)


def missing_for_registry() -> str | None:
    """Why no real schema registry can be started; None if one can be."""
    return None if java_21() else "needs Java 21 or newer, for Apicurio Registry. Do: set JAVA_HOME to one"


def missing_for_postgres() -> str | None:
    """Why no PostgreSQL can be started, with what to install; None if one can be."""
    if programs() is not None:
        return None
    return "no tests on a real PostgreSQL: it is not installed. Do: sudo apt-get install postgresql"


def _there(tool: Callable[[], str]) -> bool:
    try:
        tool()
    except ConfigError:
        return False
    return True
