"""`python -m benchmarks.models_http`: models over HTTP, one server process, clients in this one, two cores.

behind      the first frame of a client that is 10, 1,000 and 100,000 events behind: p99 at most 5 ms in the
            median of five rounds
fan-out     1,000 clients on one id with 10 changes a second: p99 at most 400 ms from the change to the last
            byte at the client, and at most 64 KiB of the server's memory for each
reconnect   500 clients at once: all have their first frame within 2 s
stalled     50 clients beside 100 that read nothing: p99 at most 1.5 times that without these
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from benchmarks.gate import Bench
from benchmarks.models import EVENTS, STEPS, StepDone, Workflow, event, reducer
from benchmarks.report import Report, median, percentile, run
from tidegate import App
from tidegate.log.reads import fold
from tidegate.models.row import decode_row
from tidegate.types import TopicPartition

ID = b"w000000"
CHANGES_PER_SECOND = 10
ROUNDS = 5


class Ground:
    """The log with the app at work in a thread, and a server."""

    def __init__(self, folder: Path) -> None:
        app = App("bench")
        app.model("workflows", source=EVENTS, initial=Workflow)(reducer)
        self.bench = Bench(app, folder)
        self.bench.open()
        command = [sys.executable, "-m", "tidegate", "serve", "--port", "0", "--json"]
        self._server = subprocess.Popen(
            [*command, "--log", f"sqlite:///{folder / 'log.db'}"], cwd=folder, stdout=subprocess.PIPE
        )
        assert self._server.stdout is not None
        self.url = json.loads(self._server.stdout.readline())["url"]
        self._number = 0

    def send(self, count: int) -> None:
        """Send events of the id, and let the app decide on them."""
        events: list[StepDone] = [event(self._number + one, STEPS) for one in range(count)]
        self._number += count
        self.bench.send([ID] * count, EVENTS.name, [msgspec.json.encode(one) for one in events])
        self.bench.work(self.bench.drained)

    def token(self) -> str:
        changelog = TopicPartition("bench-workflows-changelog", 0)
        value, _ = fold(self.bench.log, changelog)[ID]
        return decode_row(value).token(ID.decode())

    def server_kib(self) -> int:
        """The resident memory of the server."""
        status = Path(f"/proc/{self._server.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1])

    def close(self) -> None:
        self._server.terminate()
        self._server.wait()
        self.bench.close()


@contextmanager
def ground() -> Iterator[Ground]:
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    made = Ground(folder)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(folder)


class Following:
    """One client: the time at which each frame came, whole."""

    def __init__(self, url: str, token: str | None) -> None:
        self._url = urlsplit(url)
        self._token = token
        self.frames: list[tuple[float, int]] = []
        """When it came, and its sequence."""
        self.first = asyncio.Event()

    async def run(self, *, live: bool = True) -> None:
        reader, writer = await asyncio.open_connection(self._url.hostname, self._url.port)
        query = [f"hash={self._token}"] if self._token else []
        query += [] if live else ["live=false"]
        writer.write(
            f"GET /workflows/{ID.decode()}/events?{'&'.join(query)} HTTP/1.1\r\n"
            f"Host: {self._url.netloc}\r\nAccept: application/x-ndjson\r\n\r\n".encode()
        )
        try:
            await reader.readuntil(b"\r\n\r\n")
            rest = b""
            while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
                *lines, rest = (rest + (await reader.readexactly(size + 2))[:-2]).split(b"\n")
                now = time.monotonic()
                for line in filter(None, lines):
                    token = line[line.index(b'"token":"') + 9 :]
                    self.frames.append((now, int(token.split(b"-")[1])))
                    self.first.set()
                    if not live:
                        return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


def behind(report: Report, one: Ground, *, quick: bool) -> None:
    one.send(STEPS)
    for count in (10, 1_000) if quick else (10, 1_000, 100_000):
        held = one.token()
        report.progress(f"{count:,} events behind")
        one.send(count)

        async def ask(held: str = held) -> list[float]:
            times = []
            for _ in range(20 if quick else 300):
                began = time.perf_counter()
                client = Following(one.url, held)
                await client.run(live=False)
                assert client.frames
                times.append(time.perf_counter() - began)
            return times[1:]  # the first one may wait for the replica

        rounds = [asyncio.run(ask()) for _ in range(1 if quick else ROUNDS)]
        name = f"{count:,} events behind over HTTP, with the connection"
        tails = sorted(percentile(times, 99) * 1e3 for times in rounds)
        report.measured(f"{name}, p50", median([percentile(times, 50) * 1e3 for times in rounds]), "ms")
        report.measured(f"{name}, p99 of the worst round", tails[-1], "ms")
        report.at_most(f"{name}, p99 of the median round", median(tails), "ms", 5)


def fan_out(report: Report, one: Ground, *, quick: bool) -> None:
    clients, seconds = (100, 3) if quick else (1_000, 20)
    report.progress(f"{clients:,} clients, {CHANGES_PER_SECOND} changes a second")
    followed = Followed(one, clients, seconds)
    report.measured("memory for each client", followed.kib_at_first, "KiB")
    report.at_most("memory for each client, under load", followed.kib_under_load, "KiB", 64)
    report.measured("changes seen", followed.seen, "of all")
    report.measured("from the change to the client, p50", followed.percentile(50), "ms")
    report.at_most("from the change to the client, p99", followed.percentile(99), "ms", 400)


def stalled(report: Report, one: Ground, *, quick: bool) -> None:
    """Clients beside 100 that read nothing, in turns with clients alone."""
    alone, beside = [], []
    for turn in range(1 if quick else 3):
        report.progress(f"beside 100 readers that read nothing, turn {turn + 1}")
        alone.append(Followed(one, 50, 3 if quick else 8).percentile(99))
        with ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(closing(_open_and_read_nothing(one.url)))
            beside.append(Followed(one, 50, 3 if quick else 8).percentile(99))
    report.measured("50 clients alone, p99", median(alone), "ms")
    report.at_most("beside 100 that read nothing, times that", median(beside) / median(alone), "x", 1.5)


def _open_and_read_nothing(url: str) -> socket.socket:
    parts = urlsplit(url)
    made = socket.create_connection((parts.hostname, parts.port))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.sendall(f"GET /workflows/{ID.decode()}/events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
    return made


class Followed:
    """What clients of the id got while it changed for some seconds."""

    def __init__(self, one: Ground, clients: int, seconds: int) -> None:
        self._one = one
        self._clients = clients
        self._going, self._changed = threading.Event(), threading.Event()
        self._before = one.server_kib()
        self._token = one.token()
        written: dict[int, float] = {}
        sequence = int(self._token.split("-")[1])
        with ThreadPoolExecutor(1) as pool:
            following = pool.submit(lambda: asyncio.run(self._follow()))
            self._going.wait()
            for number in range(seconds * CHANGES_PER_SECOND):  # the app works in the thread that opened it
                due = time.monotonic() + 1 / CHANGES_PER_SECOND
                written[sequence + number + 1] = time.monotonic()
                one.send(1)
                time.sleep(max(0.0, due - time.monotonic()))
            self._changed.set()
            followed = following.result()
        self._latencies: list[float] = []
        for client in followed:
            seen = sequence
            for at, newest in client.frames:
                numbers = (number for number in range(seen + 1, newest + 1) if number in written)
                self._latencies += [at - written[number] for number in numbers]
                seen = max(seen, newest)
        self.seen = len(self._latencies) / (clients * len(written))

    def percentile(self, percent: int) -> float:
        """In milliseconds, from the change to the client."""
        return percentile(self._latencies, percent) * 1e3

    async def _follow(self) -> list[Following]:
        clients = [Following(self._one.url, self._token) for _ in range(self._clients)]
        tasks = [asyncio.create_task(client.run()) for client in clients]
        await asyncio.gather(*(client.first.wait() for client in clients))
        self.kib_at_first = self._kib()
        self._going.set()
        await asyncio.to_thread(self._changed.wait)
        await asyncio.sleep(1)
        self.kib_under_load = self._kib()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return clients

    def _kib(self) -> float:
        """The server's memory for each client."""
        return (self._one.server_kib() - self._before) / self._clients


def reconnect(report: Report, one: Ground, *, quick: bool) -> None:
    clients = 50 if quick else 500
    token = one.token()
    one.send(10)
    report.progress(f"{clients} clients connect at once")

    async def connect() -> float:
        all_clients = [Following(one.url, token) for _ in range(clients)]
        began = time.monotonic()
        tasks = [asyncio.create_task(client.run()) for client in all_clients]
        await asyncio.gather(*(client.first.wait() for client in all_clients))
        seconds = time.monotonic() - began
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return seconds

    report.at_most(f"{clients} clients at once, until the last first frame", asyncio.run(connect()), "s", 2)


def measure(report: Report, quick: bool) -> None:
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    with ground() as one:
        behind(report, one, quick=quick)
        reconnect(report, one, quick=quick)
        fan_out(report, one, quick=quick)
        stalled(report, one, quick=quick)


if __name__ == "__main__":
    run("models_http", measure)
