"""Processes that do something at the same time, started once and used for many rounds."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

Job = tuple[Callable[..., Any], tuple[Any, ...]]

HEAD_START = 0.1
PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Turn:
    """What a job sees of the others. A job is called with it first, and uses both methods once."""

    pipe: Connection

    def wait(self) -> float:
        """Report that the warm-up is over; returns the time (`time.monotonic`) at which all start."""
        self.pipe.send(("ready", None))
        start: float = self.pipe.recv()
        return start

    def finish(self) -> None:
        """Say that the measured part is over, and wait until it is so for all."""
        self.pipe.send(("finished", None))
        self.pipe.recv()


class Crew:
    """So many processes, each with a pipe. Use it as a context: leaving ends them, by their ids."""

    def __init__(self, count: int) -> None:
        self._members: list[tuple[BaseProcess, Connection]] = []
        context = multiprocessing.get_context("spawn")
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._members.append((process, ours))

    def play(self, jobs: Sequence[Job]) -> list[Any]:
        """Run the jobs, one process each, started together; what each returned, in order."""
        pipes = [pipe for _, pipe in self._members[: len(jobs)]]
        for pipe, job in zip(pipes, jobs, strict=True):
            pipe.send(job)
        _answers(pipes, "ready")
        start = time.monotonic() + HEAD_START
        for pipe in pipes:
            pipe.send(start)
        _answers(pipes, "finished")
        for pipe in pipes:
            pipe.send(None)
        return _answers(pipes, "returned")

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process, pipe in self._members:
            pipe.close()
            if error is not None:
                process.terminate()
        for process, _ in self._members:
            process.join(PATIENCE_SECONDS)
            if process.is_alive():
                process.kill()


def _answers(pipes: Sequence[Connection], expected: str) -> list[Any]:
    answers = []
    for pipe in pipes:
        kind, content = pipe.recv()
        if kind != expected:
            raise RuntimeError(f"a process of the benchmark failed:\n{content}")
        answers.append(content)
    return answers


def _serve(pipe: Connection) -> None:
    """Do one job after the other until the pipe is closed."""
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(("returned", function(Turn(pipe), *arguments)))
        except Exception:  # noqa: BLE001 - reported to the parent, which raises it
            pipe.send(("failed", traceback.format_exc()))
            return
