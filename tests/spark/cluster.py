"""A real standalone cluster on this machine: one master, two workers, from the pip wheel.

Each worker is a host of its own for tidegate: a name and a state folder of its own.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyspark
from tests.class_archives import spark_options
from tests.waiting import HANG_SECONDS

SPARK_HOME = Path(pyspark.__file__).parent
QUICK = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {spark_options()}"
"""For Java processes that live for a minute: most of their time they would compile themselves."""
OPTIONS = f"{QUICK} -Dspark.worker.timeout=10 -Dspark.deploy.maxExecutorRetries=-1"
"""The master gives a worker up after so many seconds; a worker beats four times as often."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def of_session(leader: int) -> list[int]:
    """The processes of a session. Python workers of Spark have groups of their own, but not sessions."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            state = (entry / "stat").read_text().rpartition(")")[2].split()
            if entry.name.isdigit() and int(state[3]) == leader and state[0] != "Z":
                found.append(int(entry.name))
    return found


def send_to_session(leader: int, number: signal.Signals) -> None:
    """Send a signal to a process and everything that it started."""
    for pid in of_session(leader):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


class Node:
    """One process of the cluster, in a session of its own: its executors stop and die with it."""

    def __init__(self, folder: Path, name: str, arguments: list[str], env: dict[str, str]) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [str(SPARK_HOME / "bin" / "spark-class"), *arguments],
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1", **env},
                cwd=folder,
            )

    def send(self, number: signal.Signals) -> None:
        send_to_session(self.process.pid, number)

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while text not in self.log.read_text(errors="replace"):
            assert time.monotonic() < deadline, f"{self.name} did not start: {self.log.read_text()[-2000:]}"
            assert self.process.poll() is None, f"{self.name} ended: {self.log.read_text()[-2000:]}"
            time.sleep(0.1)

    def close(self) -> None:
        self.send(signal.SIGCONT)
        self.send(signal.SIGKILL)
        self.process.wait(HANG_SECONDS)


class Cluster:
    """Master and workers; `url` is what --master takes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        address = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
        master = ["org.apache.spark.deploy.master.Master", *address]
        self.master = Node(folder, "master", master, {"SPARK_MASTER_OPTS": OPTIONS})
        self.master.wait_for("Starting Spark master at")
        self.workers = [self.start_worker(number) for number in (1, 2)]

    def start_worker(self, number: int) -> Node:
        """A worker with two cores; the same number again is the same host again."""
        name = f"worker-{number}"
        env = {
            "SPARK_WORKER_OPTS": OPTIONS,
            "TIDEGATE_HOST": name,
            "TIDEGATE_STATE_DIR": str(self.state_dir(number)),
            "PYSPARK_PYTHON": sys.executable,
        }
        arguments = ["--host", "127.0.0.1", "--cores", "2", "--memory", "2g", "--webui-port", "0"]
        work = ["--work-dir", str(self._folder / f"work-{number}")]
        node = Node(
            self._folder, name, ["org.apache.spark.deploy.worker.Worker", *arguments, *work, self.url], env
        )
        node.wait_for("Successfully registered with master")
        return node

    def state_dir(self, number: int) -> Path:
        """Where a worker's tasks keep their state."""
        return self._folder / f"state-{number}"

    def close(self) -> None:
        for node in (*self.workers, self.master):
            node.close()
