"""One or more brokers that form one Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Self

from tidegate.testing.broker.config import SMALL_JVM, Address
from tidegate.testing.broker.node import Broker
from tidegate.testing.broker.ports import free_ports


class KafkaCluster:
    """Brokers in one folder, serving from construction to `close`.

    With `brokers=3` all three are voters of the controller quorum, so any one may be missing. `config` goes
    into every `server.properties` and wins over the defaults of `config.py`; `jvm` replaces the options for
    short lives. If this process dies, the brokers die with it.
    """

    def __init__(
        self,
        folder: Path,
        brokers: int = 1,
        config: Mapping[str, str] = MappingProxyType({}),
        *,
        jvm: Sequence[str] = SMALL_JVM,
    ) -> None:
        ports = free_ports(2 * brokers)
        quorum = [Address(i + 1, ports[2 * i], ports[2 * i + 1]) for i in range(brokers)]
        self.brokers = [Broker(folder / f"broker-{own.node}", own, quorum, config, jvm) for own in quorum]
        try:
            self.start()
        except BaseException:
            self.kill()
            raise

    @property
    def bootstrap(self) -> str:
        """For Kafka's clients: `127.0.0.1:port,...`."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def url(self) -> str:
        """For tidegate: `kafka://127.0.0.1:port,...`."""
        return f"kafka://{self.bootstrap}"

    @property
    def pids(self) -> list[int]:
        """Of all brokers that run."""
        return [broker.pid for broker in self.brokers if broker.pid is not None]

    def start(self) -> None:
        """Start all that are down, together: a quorum needs more than one to come up."""
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.wait_ready()

    def kill(self) -> None:
        """SIGKILL all."""
        for broker in self.brokers:
            broker.kill()

    def close(self) -> None:
        """End all brokers. The last of a quorum cannot shut down cleanly without the others, and the
        folder is not read after this, so they are killed."""
        self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
