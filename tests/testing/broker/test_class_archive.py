"""A broker of the tests starts from the archive of its classes (decision 035)."""

from __future__ import annotations

import subprocess

import pytest

from tidegate.testing.broker.class_archive import shared_classes
from tidegate.testing.broker.jars import classpath
from tidegate.testing.broker.tools import java


@pytest.mark.slow
@pytest.mark.usefixtures("kafka_jars")
def test_a_broker_loads_its_classes_from_the_archive() -> None:
    options = shared_classes()
    if not options:
        pytest.skip("this Java wrote no archive of classes at set-up")
    command = [java(), *options, "-Xlog:class+load", "-cp", classpath(), "kafka.Kafka"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    [line] = [line for line in loaded.splitlines() if "] kafka.Kafka " in line]
    assert "shared objects file (top)" in line
