"""Three servers that ingest nothing, an app and many clients of all kinds: servers and slots are killed,
clients come and go, and each version that a client ever held is compared with the events topic."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

import msgspec
from tests.models.app import EVENTS, Started, StepDone
from tests.repetitions import repeated
from tests.server.model_clients import Counts, FleetClient
from tests.server.model_processes import Process, Processes
from tests.server.model_sessions import OF_TIDEGATE, sessions
from tests.waiting import HANG_SECONDS, wait_for

from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.log.positions import read_positions
from tidegate.log.protocol import Log
from tidegate.log.reads import fold
from tidegate.models.canonical import digest
from tidegate.models.formats import ModelEvent
from tidegate.models.patch import apply
from tidegate.models.row import decode_row
from tidegate.models.token import Token
from tidegate.testing.views import all_records
from tidegate.types import TopicPartition

ROOT = Path(__file__).parents[2]
SERVERS = 3
IDS = [f"w{number}" for number in range(5)]
CLIENTS = repeated(40, 200)
SECONDS = repeated(8, 120)


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
        processes = stack.enter_context(Processes())
        worker = Process(processes, "worker", url, str(tmp_path), folder=tmp_path, ready="started")
        feeder.start()
        stack.callback(feeder.end)
        servers = []
        for number in range(SERVERS):
            port = _free_port()
            folder = tmp_path / f"server-{number}"
            folder.mkdir()
            command = ["tidegate", "serve", "--log", url, "--port", str(port), "--json"]
            server = Process(processes, *command, folder=folder, ready=f":{port}")
            servers.append((f"http://127.0.0.1:{port}", server))
        counts = Counts()
        chaos = threading.Thread(target=_kill, args=(worker, servers, counts))
        chaos.start()
        asyncio.run(_clients([address for address, _ in servers], counts, chaos, feeder, log))
    print(counts.report())  # noqa: T201 - pytest shows it with -s, or if the test fails
    assert counts.resets == []
    assert set(counts.patches) == set(counts.sessions)
    assert counts.patches.total() > CLIENTS
    assert counts.sessions.total() > 2 * CLIENTS
    assert set(counts.survived) >= OF_TIDEGATE
    versions = _versions(log)
    assert {key: found for key, found in counts.seen.items() if found != {versions.get(key)}} == {}


def _kill(worker: Process, servers: list[tuple[str, Process]], counts: Counts) -> None:
    """Until the time is up and clients of each kind have survived a kill of their server."""
    random, began = Random(7), time.monotonic()
    while time.monotonic() < began + SECONDS or not set(counts.survived) >= OF_TIDEGATE:
        assert time.monotonic() < began + SECONDS + HANG_SECONDS, counts.report()
        time.sleep(random.uniform(0.2, 1.0))
        url, process = random.choice([("", worker), *servers])
        process.kill()
        counts.killed.append((url, time.monotonic()))
        process.start()


async def _clients(
    servers: list[str], counts: Counts, chaos: threading.Thread, feeder: Feeder, log: Log
) -> None:
    last: dict[str, asyncio.Future[str]] = {id: asyncio.get_running_loop().create_future() for id in IDS}
    async with sessions() as kinds, asyncio.TaskGroup() as group:
        for number in range(CLIENTS):
            id = IDS[number // len(kinds) % len(IDS)]
            kind, session = list(kinds.items())[number % len(kinds)]
            one = FleetClient(id, servers, counts, number, kind, session)
            group.create_task(one.run(last[id]))
        await asyncio.to_thread(chaos.join)
        await asyncio.to_thread(feeder.end)
        await asyncio.to_thread(wait_for, lambda: _events_decided(log, feeder.sent + len(IDS)), 60)
        for id, token in _tokens(log).items():
            last[id].set_result(token)


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


def _versions(log: Log) -> dict[tuple[str, str], str]:
    """The digest of each version, by id and token. No version is in the events topic twice, and none is
    missing; the last one is in the row."""
    decode = msgspec.json.Decoder(ModelEvent).decode
    events = [decode(one.value) for one in all_records(log, "workflows-workflows-events") if one.value]
    found = {}
    for id, data in _rows(log).items():
        own = [event for event in events if event.id == id]
        assert [event.sequence for event in own] == list(range(1, len(own) + 1))
        state = None
        for event in own:
            state = apply(state, event.patch)
            found[id, Token(event.life, event.sequence, event.hash).text(id)] = digest(state)
        assert decode_row(data).document() == state
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
