"""One broker, one source, and the engines that have counted it: what the parts of the benchmark share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.peers.engines import ENGINES
from benchmarks.peers.peer import Peer, Run
from benchmarks.peers.records import KEYS, PARTITIONS, fill
from benchmarks.peers.usage import Usage
from benchmarks.peers.verify import WrongResultError, check_counts
from benchmarks.peers.watch import Lag, Watch, partitions
from benchmarks.report import Report
from tidegate.log.ensure import find_topic
from tidegate.log.kafka.log import KafkaLog
from tidegate.log.topic import TopicSpec
from tidegate.testing.broker import KafkaCluster

JVM = ("-Xms1g", "-Xmx1g")
"""A broker as one would run it: both compilers, the collector that the JVM chooses."""
CONFIG = {"log.retention.check.interval.ms": "300000", "log.cleaner.backoff.ms": "15000"}
"""Kafka's own; those of the tests are quick at what a test waits for."""
COMMIT_MS = 100
SOURCE = "source"
LONGEST_SECONDS = 1_200.0
WARM_UPS = 3
"""Runs before the first one that counts: after one the broker still takes twice the CPU for each record."""


@dataclass(frozen=True, slots=True)
class Counted:
    """An engine has counted the whole source, and was stopped. Its state and its topics are still there."""

    peer: Peer
    app_id: str
    output: str
    folder: Path
    per_second: float
    cpu_per_million: float
    broker_cpu_per_million: float
    peak: int
    """Bytes of all its processes together."""


@dataclass(slots=True)
class Bench:
    """Made by `opened`."""

    report: Report
    kafka: KafkaCluster
    log: KafkaLog
    folder: Path
    records: int
    quick: bool
    rounds: int
    chosen: Mapping[str, Peer]
    extra: int = 0
    """Records that were added to the source behind the others."""
    _counted: dict[str, Counted] = field(default_factory=dict)
    _filled: bool = False

    def of(self, *names: str) -> dict[str, Peer]:
        """Those of these engines that were requested."""
        return {name: self.chosen[name] for name in names if name in self.chosen}

    def output(self, name: str) -> str:
        """A new topic for rows, as all engines get it."""
        self.log.create(TopicSpec(name, PARTITIONS, {"cleanup.policy": "compact"}))
        return name

    def counted(self, name: str) -> Counted:
        """Let an engine count the source, once."""
        if name not in self._counted:
            self._counted[name] = self.count(name, name)
        return self._counted[name]

    def count(self, name: str, app: str) -> Counted:
        """Let an engine count the source, with state and topics of this app."""
        self._fill_and_warm_up(name)
        return self._count(app, self.chosen[name])

    def _fill_and_warm_up(self, name: str) -> None:
        if not self._filled:
            self.report.progress(f"filling the source with {self.records:,} records")
            self.log.create(TopicSpec(SOURCE, PARTITIONS, {"retention.ms": "-1"}))
            fill(self.log, SOURCE, self.records)
            self._filled = True
            self.report.progress("warming up: a broker that has compiled nothing yet is slower")
            for number in range(1 if self.quick else WARM_UPS):
                self._count(f"{name}-warm-up-{number}", self.chosen[name])

    def _count(self, name: str, peer: Peer) -> Counted:
        self.report.progress(f"{peer.name}: counting {self.records:,} records")
        app, output, folder = f"count-{name}", self.output(f"count-{name}-output"), self.folder / name
        with self.running(peer, SOURCE, output, app, folder) as run:
            watch = Watch(self.log, self.kafka.bootstrap, app, SOURCE, output)
            with Usage(lambda: run.pids) as engine, Usage(lambda: self.kafka.pids) as broker:
                watch.until_first(run, LONGEST_SECONDS)
                watch.until_done(run, LONGEST_SECONDS)
            run.stop()
        while_it_ran = watch.first_at, watch.last_at
        millions = self.records * watch.share / 1e6
        self.check(peer, output, self.records + self.extra, min(KEYS, self.records))
        found = Counted(
            peer,
            app,
            output,
            folder,
            self.records * watch.share / watch.seconds,
            engine.cpu_seconds(*while_it_ran) / millions,
            broker.cpu_seconds(*while_it_ran) / millions,
            engine.peak,
        )
        self.report.progress(
            f"{found.per_second:,.0f} records/s, CPU {found.cpu_per_million:.2f} s per million, "
            f"{found.broker_cpu_per_million:.2f} of the broker"
        )
        return found

    @contextmanager
    def running(self, peer: Peer, source: str, output: str, app_id: str, folder: Path) -> Iterator[Run]:
        """An engine at work; at the end it is gone."""
        run = peer.start(self.kafka.bootstrap, source, output, app_id, folder, COMMIT_MS)
        try:
            yield run
        except WrongResultError:
            for file in sorted(folder.glob("*.log")):  # gone with the folder otherwise
                self.report.progress(f"the end of {file.name}:\n{file.read_text(errors='replace')[-3000:]}")
            raise
        finally:
            run.kill()

    def wait(self, holds: Callable[[], bool], run: Run, what: str) -> None:
        """Until it is so, while the engine lives."""
        deadline = time.monotonic() + LONGEST_SECONDS
        while not holds():
            if not run.pids or time.monotonic() > deadline:
                raise WrongResultError(f"{what}: not in time, or the engine ended before")
            time.sleep(0.01)

    def wait_done(self, run: Run, app_id: str, source: str) -> None:
        """Until the engine has committed its whole source."""
        with closing(Lag(self.log, self.kafka.bootstrap, app_id, source)) as lag:
            self.wait(lambda: lag.now() == 0, run, f"{app_id}: the end of {source}")

    def check(self, peer: Peer, output: str, records: int, keys: int) -> None:
        check_counts(self.log, output, peer, records, keys)

    def changelog_records(self, app_id: str) -> int:
        """How many records the engine's changelog holds, by its offsets."""
        begins = ("changelog__" + app_id, app_id)
        names = [name for name in self.log.names() if name.startswith(begins) and "changelog" in name]
        info = find_topic(self.log, min(names, key=len)) if names else None  # longer ones are of other apps
        if info is None:
            raise WrongResultError(f"{app_id} has no changelog")
        return sum(self.log.ends(partitions(info.name)).values()) - sum(info.starts)


@contextmanager
def opened(
    report: Report, folder: Path, engines: list[str], *, records: int, quick: bool, rounds: int
) -> Iterator[Bench]:
    """A broker, and everything that the engines need."""
    chosen = {name: ENGINES[name] for name in engines}
    for peer in chosen.values():
        peer.prepare()
    with KafkaCluster(folder / "kafka", config=CONFIG, jvm=JVM) as kafka:
        log = KafkaLog(kafka.bootstrap)
        try:
            yield Bench(report, kafka, log, folder, records, quick, rounds, chosen)
        finally:
            log.close()
