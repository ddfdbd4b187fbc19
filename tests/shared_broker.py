"""One Kafka broker for all processes of a run.

The process that shares out the tests (`pytest -n`) owns the broker, and starts it when the first worker needs
it: workers end at different times, and a broker ends with the process that started it. Workers send a request
over a socket in the run's temporary folder; the answer is the broker's address, or why it did not start.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from tidegate.testing.broker import KafkaCluster

ADDRESS = "kafka_socket"
"""Where a worker finds the address of the socket, in what it got from its controller."""


class BrokerService:
    """Answers requests for the broker from construction to `close`, which ends the broker too."""

    def __init__(self, folder: Path, start: Callable[[Path], KafkaCluster] = KafkaCluster) -> None:
        self.address = str(folder / "kafka.socket")
        self._folder = folder
        self._start = start
        self._cluster: KafkaCluster | None = None
        self._listener = Listener(self.address, family="AF_UNIX", backlog=64)
        self._thread = threading.Thread(target=self._serve, name="kafka-for-workers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with suppress(OSError), Client(self.address) as caller:
            caller.send("end")
        self._thread.join()
        self._listener.close()
        if self._cluster is not None:
            self._cluster.close()

    def _serve(self) -> None:
        while True:
            with self._listener.accept() as caller:
                if not self._answer(caller):
                    return

    def _answer(self, caller: Connection[Any, Any]) -> bool:
        """False if there is nothing more to answer."""
        with suppress(EOFError, OSError):  # a worker that died while it waited
            if caller.recv() == "end":
                return False
            caller.send(self._address_and_pids())
        return True

    def _address_and_pids(self) -> tuple[str, list[int], str]:
        """And why it did not start, where it did not."""
        try:
            if self._cluster is None:
                self._cluster = self._start(self._folder / "kafka")
        except Exception as error:  # noqa: BLE001 - it is the worker's, whose test fails with it
            return "", [], f"{type(error).__name__}: {error}"
        return self._cluster.bootstrap, self._cluster.pids, ""


class SharedKafka(KafkaCluster):
    """The broker of another process: it has addresses, and is neither started nor stopped from here."""

    def __init__(self, bootstrap: str, pids: list[int]) -> None:
        self.brokers = []
        self._bootstrap = bootstrap
        self._pids = pids

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    @property
    def pids(self) -> list[int]:
        return self._pids


@contextmanager
def broker_for(workerinput: dict[str, Any] | None, folder: Path) -> Iterator[KafkaCluster]:
    """The controller's broker in a worker, and one of its own in a process that is alone."""
    if workerinput is None or ADDRESS not in workerinput:
        with KafkaCluster(folder) as cluster:
            yield cluster
        return
    with Client(workerinput[ADDRESS]) as caller:
        caller.send("kafka")
        answer = caller.recv()
    bootstrap, pids, failed = answer
    assert not failed, f"the broker of this run did not start: {failed}"
    yield SharedKafka(bootstrap, pids)
