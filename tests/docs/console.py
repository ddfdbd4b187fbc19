"""Console blocks: lines `$ command`, and below each the output that the page shows."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.docs.pages import Block
from tests.waiting import HANG_SECONDS
from typer.testing import CliRunner

from tidegate.cli.main import app

NOT_HERE = ("pip ", "make ", "git ", "docker ", "source ", "cd ", "mkdir ", "python3 -m venv", "sudo ")
"""What sets up a machine. The test's own environment is set up, so these lines are for the reader alone."""
IN_PROCESS = re.compile(
    r"^(?:echo [^|&;<>$`]*\| *)?tidegate (?!run\b|demo\b|serve\b|doctor\b|state\b)[^|&;<>$`]*$"
)
PORT = "8470"
"""Of the server, as the pages have it; another one is free."""
ENDS_SECONDS = 60.0
SOON_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Command:
    """One line to type, and what it should print; an empty `shown` is not compared."""

    line: str
    shown: str
    place: str


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block. A line that ends with a backslash goes on in the next."""
    found: list[tuple[int, list[str], list[str]]] = []
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if line.startswith("$ "):
            found.append((number, [line[2:]], []))
        elif found and found[-1][1][-1].endswith("\\") and not found[-1][2]:
            found[-1][1].append(line)
        elif found:
            found[-1][2].append(line)
        else:
            raise AssertionError(f"{block.page}:{number}: a console block begins with a line `$ command`")
    for number, typed, shown in found:
        yield Command("\n".join(typed), "\n".join(shown).strip("\n"), f"{block.page}:{number}")


def is_for_the_reader(line: str) -> bool:
    return line.startswith(NOT_HERE)


def pattern(shown: str) -> str:
    """`...` alone in a line stands for any lines, inside a line for any text. Runs of spaces are equal."""
    lines = []
    for line in shown.splitlines():
        if line.strip() in {"...", "…"}:
            lines.append(r"(?:[^\n]*\n)*?")
        else:
            parts = (_spaced(part) for part in line.strip().split("..."))
            lines.append(r"\s*" + r"[^\n]*?".join(parts) + r"[ \t]*\n")
    return "".join(lines)


def _spaced(text: str) -> str:
    return r"\s+".join(re.escape(word) for word in re.split(r"\s+", text))


def fits(shown: str, printed: str) -> bool:
    """Whether the whole output is what the page shows."""
    return re.fullmatch(pattern(shown), _plain(printed)) is not None


def begins(shown: str, printed: str) -> bool:
    """Whether the output of a command that goes on shows it already."""
    return re.search(pattern(shown), _plain(printed)) is not None


def _plain(printed: str) -> str:
    lines = (line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed).splitlines())
    return "".join(f"{line}\n" for line in "\n".join(lines).strip("\n").split("\n"))


@dataclass(slots=True)
class Terminal:
    """Types commands into the folder of a page. `replaced`: what other ports and brokers stand here for."""

    folder: Path
    replaced: dict[str, str] = field(default_factory=dict)
    left: list[tuple[subprocess.Popen[str], IO[str]]] = field(default_factory=list)

    def type(self, command: Command, *, code: int = 0, soon: bool = False) -> None:
        """Run it to its end and compare what it printed; if `soon`, again until it prints what it should."""
        line = self.here(command.line)
        printed, ended = self._ran(line)
        deadline = time.monotonic() + SOON_SECONDS
        while soon and not fits(self.here(command.shown), printed) and time.monotonic() < deadline:
            time.sleep(0.2)
            printed, ended = self._ran(line)
        assert ended == code, f"{command.place}: `{line}` ended with {ended}, not {code}:\n{printed}"
        if command.shown:
            shown = self.here(command.shown)
            assert fits(shown, printed), f"{command.place}: `{line}` printed\n{printed}\nand not\n{shown}"

    def leave_running(self, command: Command) -> None:
        """Start it, and go on when it has printed what the page shows."""
        output = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed at the end of the page
        started = subprocess.Popen(
            ["bash", "-c", f"exec {self.here(command.line)}"],  # noqa: S607
            cwd=self.folder,
            env=self.environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.left.append((started, output))

        def printed() -> str:
            output.seek(0)
            return output.read()

        deadline = time.monotonic() + HANG_SECONDS
        while not begins(self.here(command.shown), printed()) and started.poll() is None:
            assert time.monotonic() < deadline, f"{command.place} printed\n{printed()}"
            time.sleep(0.05)
        assert begins(self.here(command.shown), printed()), f"{command.place} printed\n{printed()}"

    def end_all(self) -> None:
        """End what the page left running, as Ctrl-C would."""
        for started, output in reversed(self.left):
            with suppress(ProcessLookupError):
                started.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                started.wait(ENDS_SECONDS)
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()
            output.close()
        self.left.clear()

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_")}
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        port = {"TIDEGATE_SERVER__PORT": self.replaced[PORT]} if PORT in self.replaced else {}
        return {
            **kept,
            **port,
            "PATH": path,
            "COLUMNS": "100",
            "TERM": "dumb",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def here(self, text: str) -> str:
        """The text with the ports and brokers that there are."""
        for written, real in self.replaced.items():
            text = text.replace(written, real)
        return text

    def _ran(self, line: str) -> tuple[str, int]:
        return self._in_process(line) if IN_PROCESS.match(line) else self._in_bash(line)

    def _in_bash(self, line: str) -> tuple[str, int]:
        ran = subprocess.run(
            ["bash", "-c", line],  # noqa: S607
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        return ran.stdout, ran.returncode

    def _in_process(self, line: str) -> tuple[str, int]:
        """A command of tidegate alone, in this process: a new one takes most of a second to start."""
        words, stdin = shlex.split(line, comments=True), None
        if words[0] == "echo":
            pipe = words.index("|")
            stdin, words = " ".join(words[1:pipe]) + "\n", words[pipe + 1 :]
        result = CliRunner().invoke(app, words[1:], input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.output, result.exit_code
