"""Three servers that ingest nothing, an app and many clients: servers and slots are killed, clients come and
go."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

import msgspec
from tests.models.app import EVENTS, Started, StepDone
from tests.repetitions import repeated
from tests.server.model_clients import Counts, FleetClient
from tests.waiting import wait_for

from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.log.positions import read_positions
from tidegate.log.protocol import Log
from tidegate.log.reads import fold
from tidegate.models.formats import ModelEvent
from tidegate.models.patch import apply
from tidegate.models.row import decode_row
from tidegate.testing.views import all_records
from tidegate.types import TopicPartition

ROOT = Path(__file__).parents[2]
SERVERS = 3
IDS = [f"w{number}" for number in range(5)]
CLIENTS = repeated(40, 200)
SECONDS = repeated(10, 120)


class Process:
    """A process of Python that is killed and started again."""

    def __init__(self, *arguments: str, folder: Path, ready: str) -> None:
        self._arguments = arguments
        self._folder = folder
        self._ready = ready
        self.first_line = ""
        self.start()

    def start(self) -> None:
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        self._process = subprocess.Popen(
            [sys.executable, "-m", *self._arguments],
            cwd=self._folder,
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.first_line = self._process.stdout.readline()
        assert self._ready in self.first_line

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def again(self) -> None:
        self.kill()
        self.start()


class Feeder(threading.Thread):
    """Sends events of all ids until it is ended."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self._ended = threading.Event()
        self.sent = 0

    def run(self) -> None:
        random = Random(1)
        for id in IDS:
            self._connection.send(EVENTS, id, Started(id))
        while not self._ended.wait(0.02):
            event = StepDone(f"step-{random.randrange(30)}", float(self.sent))
            self._connection.send(EVENTS, random.choice(IDS), event)
            self.sent += 1

    def end(self) -> None:
        self._ended.set()
        self.join()


def run_fleet(url: str, log: Log, tmp_path: Path) -> None:
    """Follow a model with many clients while servers and slots are killed, and check what they got."""
    feeder = Feeder(Connection(log, partitions=2, clock=SystemClock(), owned=False))
    with ExitStack() as stack:
        worker = Process("tests.server.model_worker", url, str(tmp_path), folder=tmp_path, ready="started")
        stack.callback(worker.kill)
        feeder.start()
        stack.callback(feeder.end)
        servers = []
        for number in range(SERVERS):
            port = _free_port()
            folder = tmp_path / f"server-{number}"
            folder.mkdir()
            server = Process(
                *("tidegate", "serve", "--log", url, "--port", str(port), "--json"),
                folder=folder,
                ready=f":{port}",
            )
            stack.callback(server.kill)
            servers.append((f"http://127.0.0.1:{port}", server))
        counts = Counts()
        chaos = threading.Thread(target=_kill, args=(worker, [server for _, server in servers]))
        chaos.start()
        asyncio.run(_clients([address for address, _ in servers], counts, chaos, feeder, log))
    assert counts.resets == []
    assert counts.patches > CLIENTS
    assert counts.connections > 2 * CLIENTS
    _rows_are_the_fold(log)


def _kill(worker: Process, servers: list[Process]) -> None:
    random, ends = Random(7), time.monotonic() + SECONDS
    while time.monotonic() < ends:
        time.sleep(random.uniform(0.5, 2.0))
        random.choice([worker, *servers]).again()


async def _clients(
    servers: list[str], counts: Counts, chaos: threading.Thread, feeder: Feeder, log: Log
) -> None:
    ending = asyncio.Event()
    last: dict[str, asyncio.Future[str]] = {id: asyncio.get_running_loop().create_future() for id in IDS}
    async with asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            id = IDS[number % len(IDS)]
            one = FleetClient(id, servers, counts, number, sse=number % 2 == 0)
            group.create_task(one.run(ending, last[id]))
        await asyncio.to_thread(chaos.join)
        await asyncio.to_thread(feeder.end)
        await asyncio.to_thread(wait_for, lambda: _events_decided(log, feeder.sent + len(IDS)), 60)
        for id, token in _tokens(log).items():
            last[id].set_result(token)
        ending.set()


def _events_decided(log: Log, sent: int) -> bool:
    """Whether the worker has read all events: its committed positions are at the end of the source."""
    positions = read_positions(log, "workflows").values()
    read = sum(sum(one.sources.get(EVENTS.name, {}).values()) for one in positions)
    ends = log.ends([TopicPartition(EVENTS.name, number) for number in range(2)])
    assert sent <= sum(ends.values())
    return read >= sum(ends.values())


def _rows(log: Log) -> dict[str, bytes]:
    partitions = [TopicPartition("workflows-workflows-changelog", number) for number in range(2)]
    return {key.decode(): value for one in partitions for key, (value, _) in fold(log, one).items()}


def _tokens(log: Log) -> dict[str, str]:
    return {id: decode_row(data).token(id) for id, data in _rows(log).items()}


def _rows_are_the_fold(log: Log) -> None:
    """No version of the events topic is there twice, and none is missing."""
    decode = msgspec.json.Decoder(ModelEvent).decode
    events = [decode(one.value) for one in all_records(log, "workflows-workflows-events") if one.value]
    for id, data in _rows(log).items():
        own = [event for event in events if event.id == id]
        assert [event.sequence for event in own] == list(range(1, len(own) + 1))
        state = None
        for event in own:
            state = apply(state, event.patch)
        assert decode_row(data).document() == state


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
