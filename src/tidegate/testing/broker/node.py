"""One Kafka process: broker and controller in one, on a folder and two ports of its own."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tidegate.errors import LogError
from tidegate.testing.broker.class_archive import shared_classes
from tidegate.testing.broker.config import Address, properties, text
from tidegate.testing.broker.guard import GuardedProcess
from tidegate.testing.broker.jars import HOME, classpath
from tidegate.testing.broker.ports import LOOPBACK, answers
from tidegate.testing.broker.tools import java

CLUSTER = "dGlkZWdhdGUtdGVzdHMtMQ"  # a cluster id is 16 bytes in base64
_UP = b"Kafka Server started"  # written once the controller has let the broker in
_TIMEOUT = 180.0  # only what hangs takes so long


class Broker:
    """A broker that can be killed, stopped, frozen and started again.

        new ──start──▶ running ──kill, stop──▶ down ──start──▶ running
                        │   ▲
                   freeze   wake

    Every method may be called in every state; what is already so stays so.
    """

    def __init__(
        self,
        folder: Path,
        own: Address,
        quorum: Sequence[Address],
        config: Mapping[str, str],
        jvm: Sequence[str],
    ) -> None:
        self.id = own.node
        self.address = f"{LOOPBACK}:{own.broker}"
        self.folder = folder
        self.log_file = folder / "broker.log"
        self._port = own.broker
        self._settings = properties(own, quorum, folder / "data", config)
        self._jvm = jvm
        self._process: GuardedProcess | None = None
        self._from = 0  # where the log of the current process starts

    @property
    def pid(self) -> int | None:
        """The pid of the Java process, or None if there is none."""
        return self._process.pid if self._process and self._process.running else None

    def start(self) -> None:
        """Start it and wait until it serves; raises with the end of its log if it does not."""
        self.launch()
        self.wait_ready()

    def launch(self) -> None:
        """Start it, formatting its folder at the first time, and do not wait."""
        if self.pid is not None:
            return
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        settings = self.folder / "server.properties"
        settings.write_text(text(self._settings))
        if not (self.folder / "data" / "meta.properties").exists():
            self._format(settings)
        self._from = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._process = GuardedProcess(self._java("kafka.Kafka", str(settings)), stdout=log, stderr=log)

    def wait_ready(self, timeout: float = _TIMEOUT) -> None:
        """Return once clients are served."""
        end = time.monotonic() + timeout
        while not (_UP in self._output() and answers(self._port)):
            if self.pid is None:
                raise self._failed("ended while it started")
            if time.monotonic() > end:
                self.kill()
                raise self._failed(f"did not serve within {timeout:.0f} s")
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL, and wait until it has ended; what it had not yet synced is in the page cache and stays."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, and wait for a clean end; killed if that takes a minute, as when it is frozen."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """SIGSTOP, and wait until all threads are stopped: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)
        while self.pid is not None and not _all_threads_stopped(self.pid):
            time.sleep(0.01)

    def wake(self) -> None:
        """SIGCONT: it continues where it was frozen."""
        self._signal(signal.SIGCONT)

    def log_tail(self, lines: int = 20) -> str:
        """Return the end of what the current process wrote."""
        return "\n".join(self._output().decode(errors="replace").splitlines()[-lines:])

    def _signal(self, number: int) -> None:
        if self._process is not None:
            self._process.signal(number)

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        self._signal(number)
        try:
            self._process.wait(_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()
        self._process = None

    def _java(self, main: str, *arguments: str) -> list[str]:
        return [
            java(),
            *self._jvm,
            *shared_classes(),
            f"-Djava.io.tmpdir={self.folder / 'tmp'}",
            f"-Dlog4j2.configurationFile={HOME / 'log4j2.properties'}",
            "-Dtidegate.log.level=INFO",
            "-cp",
            classpath(),
            main,
            *arguments,
        ]

    def _format(self, settings: Path) -> None:
        command = self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings))
        with self.log_file.open("ab") as log:
            ran = subprocess.run(command, stdout=log, stderr=log, check=False)  # noqa: S603 - our own command
        if ran.returncode != 0:
            raise self._failed("could not format its folder")

    def _output(self) -> bytes:
        with self.log_file.open("rb") as log:
            log.seek(self._from)
            return log.read()

    def _failed(self, what: str) -> LogError:
        return LogError(
            "broker-down",
            f"broker {self.id} {what}:\n{self.log_tail()}",
            f"read {self.log_file}",
            retryable=True,
        )


def _all_threads_stopped(pid: int) -> bool:
    """Return whether each thread of a process is stopped, which takes a while on a busy machine."""
    states = set()
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            states.add(thread.read_text().rpartition(")")[2].split()[0])
    return states <= {"T", "t", "Z", "X"}
