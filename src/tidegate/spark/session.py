"""The Spark session that an app runs on: one that tidegate starts, or the user's."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidegate.config.spark import spark_settings
from tidegate.errors import ConfigError, first_line
from tidegate.spark.class_archive import ClassArchive
from tidegate.spark.late_session import LateSession
from tidegate.spark.python_workers import daemon_conf

OLDEST_JAVA = 17
SPARE_CORES = 2
MASTER_SECONDS = 5.0
EXECUTORS_SECONDS = 20.0
STABLE_SECONDS = 2.0
JVM_SECONDS = 30.0
"""How long a JVM may take to end before it is killed; writing the archive of its classes takes a few of
them."""
KEEPS_ARROW_MEMORY, ARROW_MEMORY_MS = "MIMALLOC_PURGE_DELAY", "10000"
"""How long Arrow's allocator keeps freed memory before it returns it to the system. It reads the environment
when it is loaded. By default it is so short that the buffers of each batch are new pages, which the system
has to clear."""
_LOCAL = re.compile(r"^local(?:\[(\*|\d+)\])?$")
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.python.worker.faulthandler.enabled": "true",
    f"spark.executorEnv.{KEEPS_ARROW_MEMORY}": ARROW_MEMORY_MS,
}
_JAVA_OPTIONS, _MORE_JAVA_OPTIONS = "spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that only schedules: optimising compilation would take half of its start-up time. The user's own
`spark.driver.extraJavaOptions` follow these and override them."""
_JAVA_HINT = "sudo apt-get install openjdk-17-jre-headless, or set JAVA_HOME"
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def start_session(
    app: str,
    settings: dict[str, Any],
    slots: int | None = None,
    *,
    stages: bool = True,
    archive: bool = False,
) -> tuple[SparkSession, int | None]:
    """Start Spark by `[spark]`. Returns a session that loads its SQL engine when it is first used, with the
    number of slots: None on a cluster, which may grow.

    On a local master slots = real cores, and the master gets two more for stages and queries. Without
    `stages` (Spark code of the user) the JVM has little to do and starts in about half the time. With
    `archive` the first JVM writes an archive of its classes when `end_session` ends it; all read one that is
    there.
    """
    if "SPARK_CONNECT_MODE_ENABLED" in os.environ:  # PySpark sets it with the first session of this kind
        raise _connect_error()
    java = _checked_java()
    spark_config = spark_settings(settings)
    _check_conf(spark_config.conf)
    master = spark_config.master
    cores = _local_cores(master)
    _check_master(master)
    conf = {**_DEFAULTS, **_own_environment(), **spark_config.conf}
    if cores is not None:
        slots = slots or cores
        master, conf = f"local[{slots + SPARE_CORES}]", {**_LOOPBACK, **conf}
        quick = "" if stages else _QUICK_JAVA
        own = f"{conf.get(_JAVA_OPTIONS, '')} {conf.get(_MORE_JAVA_OPTIONS, '')}"
        classes = ClassArchive(java, own).options(write=archive)
        conf = {_JAVA_OPTIONS: f"{quick} {classes}".strip(), **conf, **daemon_conf(conf)}
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    conf = {"spark.app.name": f"tidegate {app}", "spark.master": master, **conf}
    try:
        session = cast("SparkSession", LateSession(conf))
    except Exception as error:
        raise ConfigError(
            "no-spark",
            f"Spark does not start on {master}: {first_line(error)}",
            "check that the master answers; tidegate doctor checks what Spark needs",
        ) from error
    session.sparkContext.setLogLevel("ERROR")
    if cores is None and slots is None:
        _await_executors(session)
    return session, slots


def _own_environment() -> dict[str, str]:
    """Return the conf that hands on what the user set in the environment."""
    own = os.environ.get(KEEPS_ARROW_MEMORY)
    return {} if own is None else {f"spark.executorEnv.{KEEPS_ARROW_MEMORY}": own}


def end_session(session: SparkSession, notify: Callable[[str], None] = lambda _: None) -> None:
    """Stop Spark, and wait until its JVM has ended if this process started it: a command that has ended
    leaves nothing behind that still uses its folder. Another session may be started afterwards. `notify` is
    called if that takes longer than usual."""
    gateway = session.sparkContext._gateway
    with suppress(Exception):
        if "ArchiveClassesAtExit" in (session.sparkContext.getConf().get(_JAVA_OPTIONS) or ""):
            notify("writing an archive of Spark's classes, once: the next start is faster")
            session.version  # noqa: B018 - loads the classes of SQL, which other starts will need
    with suppress(Exception):
        session.stop()
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    with suppress(Exception):
        gateway.shutdown()
    process.stdin.close()  # the JVM ends when this pipe does
    archive = ClassArchive(_java_output())
    try:
        ended = process.wait(JVM_SECONDS) == 0
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        ended = False
    if ended:
        archive.keep()
    else:
        archive.discard()


def _await_executors(session: SparkSession) -> None:
    """Wait a little until no more executors register."""
    deadline = time.monotonic() + EXECUTORS_SECONDS
    cores, since = 0, time.monotonic()
    while time.monotonic() < deadline and time.monotonic() < since + STABLE_SECONDS:
        now = cores_of(session)
        if now != cores or not now:
            cores, since = now, time.monotonic()
        time.sleep(0.1)


def check_session(session: Any) -> None:
    """Raise if slots cannot run on this session."""
    if not isinstance(session, LateSession) and not hasattr(session, "_jsparkSession"):
        raise _connect_error()
    _check_conf({"spark.speculation": session.sparkContext.getConf().get("spark.speculation", "false")})


def _connect_error() -> ConfigError:
    return ConfigError(
        "spark-connect",
        "this is a Spark Connect session, which cannot run slots",
        "start tidegate where a classic session runs, such as spark-submit",
    )


def _check_conf(conf: Mapping[str, Any]) -> None:
    if str(conf.get("spark.speculation", "false")).lower() == "true":
        raise ConfigError(
            "speculation",
            "spark.speculation is on: Spark would start slots twice",
            "set spark.speculation to false",
        )


def _check_master(master: str) -> None:
    """Raise early for a standalone master that does not answer: Spark takes a minute to notice."""
    if not master.startswith("spark://"):
        return
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        with suppress(OSError, ValueError), socket.create_connection((host, int(port)), MASTER_SECONDS):
            return
    raise ConfigError("no-spark", f"no master answers at {master}", "start it, or check host and port")


def room_for_slots(session: SparkSession, *, stages: bool = False) -> int:
    """Return the number of slots that leaves one core for the user's queries and one for a DataFrame
    stage."""
    return max(1, cores_of(session) - (2 if stages else 1))


def cores_of(session: SparkSession) -> int:
    """Return the cores of all registered executors. `defaultParallelism` can be a setting instead."""
    context: Any = session.sparkContext
    executors = context._jsc.sc().statusStore().executorList(True)
    return sum(int(executors.apply(number).totalCores()) for number in range(executors.size()))


def java_version() -> int:
    """Return the major version of the Java that Spark will use."""
    found = re.search(r'version "(\d+)', _checked_java())
    return int(found[1]) if found else 0


def _checked_java() -> str:
    """Return what `java -version` prints. Raises if there is no Java, or it is too old."""
    printed = _java_output()
    if not printed:
        raise ConfigError("no-java", "Spark needs Java 17 or newer, and none is found", _JAVA_HINT)
    found = re.search(r'version "(\d+)', printed)
    version = int(found[1]) if found else 0
    if version < OLDEST_JAVA:
        message = f"Spark needs Java {OLDEST_JAVA} or newer; {_java()} is {version}"
        raise ConfigError("old-java", message, _JAVA_HINT)
    return printed


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else shutil.which("java")


def _java_output() -> str:
    """Return what `java -version` prints; empty if it cannot be run."""
    try:
        command = [str(_java()), "-version"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stderr + done.stdout


def _local_cores(master: str) -> int | None:
    found = _LOCAL.match(master)
    if found is None:
        return None
    if found[1] is None:
        return 1
    return (os.cpu_count() or 1) if found[1] == "*" else int(found[1])
