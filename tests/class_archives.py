"""Archives of the classes of Kafka and of Spark, made at set-up: the JVMs of tests start with less work.

Spark's lies in the environment, whose folder is part of its class path.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyspark

from tidegate import Topic, connect
from tidegate.errors import ConfigError
from tidegate.testing.broker import KafkaCluster
from tidegate.testing.broker.class_archive import archive, java_version, make_archive, use_archive

OPTIONS = "SPARK_SUBMIT_OPTS"
"""Java options of what `spark-submit` starts."""
SESSION = """
from pyspark import SparkContext
from tidegate.spark.session import start_session
session, _ = start_session("classes", {"master": "local[2]"}, stages=False)
session.sparkContext.parallelize([0], 1).foreachPartition(list)
session.range(10).selectExpr("id % 3 as k", "id as v").groupBy("k").sum("v").collect()
gateway = SparkContext._gateway
session.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


def make_archives(*, kafka: bool) -> None:
    """Those that are missing."""
    make_archive(spark_archive(), _run_session)
    if kafka:
        make_archive(archive(), _run_broker)


def spark_archive() -> Path:
    content = f"{java_version()}\n{pyspark.__version__}"
    return Path(sys.prefix) / f"classes-of-spark-{hashlib.sha256(content.encode()).hexdigest()[:16]}.jsa"


def spark_options() -> str:
    """Java options of any JVM of Spark; empty where there is no archive, or no Java."""
    try:
        file = spark_archive()
    except ConfigError:
        return ""
    return " ".join(use_archive(file)) if file.exists() else ""


def use_spark_archive() -> None:
    """For every `spark-submit` that this process and its children start."""
    os.environ[OPTIONS] = f"{os.environ.get(OPTIONS, '')} {spark_options()}".strip()


def _run_session(options: Sequence[str]) -> None:
    environ = {**os.environ, OPTIONS: " ".join(options)}
    # Without an archive tests only take longer.
    subprocess.run([sys.executable, "-c", SESSION], env=environ, check=False, stdout=subprocess.DEVNULL)


def _run_broker(options: Sequence[str]) -> None:
    """It serves a write and a read before it ends, and ends by itself: else there is no archive."""
    with tempfile.TemporaryDirectory() as folder, KafkaCluster(Path(folder), jvm=options) as cluster:
        topic = Topic("classes", str, partitions=1)
        with connect(cluster.url) as log:
            log.send(topic, "key", "first", "second")
            list(log.read(topic))
        for broker in cluster.brokers:
            broker.stop()
