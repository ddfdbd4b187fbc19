"""Java programs beside the broker: compiled once, run as processes of their own.

For comparisons with the real Kafka Streams: a program gets its arguments on the command line, tells what it
does in JSON lines on stdout, logs on stderr, and ends cleanly on SIGTERM.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tidegate.errors import ConfigError, LogError
from tidegate.testing.broker.config import SMALL_JVM
from tidegate.testing.broker.guard import GuardedProcess
from tidegate.testing.broker.jars import HOME, cache, classpath, locked, new_folder
from tidegate.testing.broker.tools import java, javac


def compiled(sources: Sequence[Path]) -> Path:
    """The folder with the classes of these sources: compiled against the broker's jars, kept by content."""
    content = hashlib.sha256(classpath().encode())
    for source in sources:
        content.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    folder = cache() / f"classes-{content.hexdigest()[:16]}"
    with locked(folder):
        if not folder.exists():
            with new_folder(folder) as fresh:
                _compile(sources, fresh)
    return folder


def _compile(sources: Sequence[Path], into: Path) -> None:
    options = ["--release", "17", "-Xlint:deprecation,unchecked", "-Werror", "-proc:none"]
    command = [javac(), *options, "-d", str(into), "-cp", classpath(), *map(str, sources)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if ran.returncode != 0:
        names = ", ".join(source.name for source in sources)
        raise ConfigError("java-source", f"{names} did not compile:\n{ran.stdout}{ran.stderr}")


class JavaProgram:
    """A running program: the main class is the first source's name.

    Its lines are kept in `<folder>/<main>.out`, its log in `<folder>/<main>.log`, both begun anew by the next
    program of that name in the folder. It dies with this process.
    """

    def __init__(
        self,
        sources: Sequence[Path],
        arguments: Sequence[str],
        folder: Path,
        *,
        jvm: Sequence[str] = SMALL_JVM,
    ) -> None:
        self.main = sources[0].stem
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tmp").mkdir(exist_ok=True)
        self.out_file = folder / f"{self.main}.out"
        self.log_file = folder / f"{self.main}.log"
        command = [
            java(),
            *jvm,
            f"-Djava.io.tmpdir={folder / 'tmp'}",
            f"-Dlog4j2.configurationFile={HOME / 'log4j2.properties'}",
            "-cp",
            f"{compiled(sources)}:{classpath()}",
            self.main,
            *arguments,
        ]
        with self.out_file.open("wb") as out, self.log_file.open("wb") as log:
            self._process = GuardedProcess(command, stdout=out, stderr=log)
        self.pid = self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.running

    def events(self) -> list[dict[str, Any]]:
        """What it told so far; a line that is not whole yet is left out."""
        lines = self.out_file.read_bytes().split(b"\n")[:-1]
        return [json.loads(line) for line in lines]

    def wait_for(self, told: Callable[[dict[str, Any]], bool], timeout: float = 60.0) -> dict[str, Any]:
        """The first event that `told` holds for; raises with the end of the log if it does not come."""
        end = time.monotonic() + timeout
        while True:
            running = self.running  # looked at first: what an ended program told is all in the file
            for event in self.events():
                if told(event):
                    return event
            if not running or time.monotonic() > end:
                raise self.failed("ended early" if not running else f"said nothing of it in {timeout:.0f} s")
            time.sleep(0.05)

    def stop(self, timeout: float = 60.0) -> int:
        """SIGTERM, and its exit code; killed if it does not end in time."""
        self._process.signal(signal.SIGTERM)
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """SIGKILL, and its exit code."""
        self._process.signal(signal.SIGKILL)
        return self._process.wait()

    def failed(self, what: str) -> LogError:
        """An error that carries the end of the program's log."""
        tail = "\n".join(self.log_file.read_text(errors="replace").splitlines()[-20:])
        return LogError(
            "java-program", f"{self.main} {what}:\n{tail}", f"read {self.log_file}", retryable=True
        )
