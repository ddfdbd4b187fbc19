"""Where the demo runs: in a file, or on a broker of its own."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tidegate.cli.demo.log_run import SEGMENT_MS, TOTALS
from tidegate.cli.output import note
from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.errors import LogError
from tidegate.log.location import LogLocation
from tidegate.log.open import open_log
from tidegate.log.protocol import Log
from tidegate.log.records import Row, to_batch
from tidegate.log.route import partitions_of
from tidegate.log.sqlite.log import SqliteLog

COMPACT_SECONDS = 30.0


class FileLog:
    """The embedded log in one file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def open(self) -> Log:
        """Compaction would come by itself; here it waits, so that before and after can be told."""
        return SqliteLog(self._file, upkeep=False)

    def compact(self) -> None:
        with closing(SqliteLog(self._file)) as log:
            log.compact(TOTALS.name)

    def size(self) -> int:
        return self._file.stat().st_size


class BrokerLog:
    """A broker, with its folder."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._folder = folder

    def open(self) -> Log:
        return open_log(LogLocation(self._url))

    def compact(self) -> None:
        """A broker leaves the segment alone that it writes to. It begins a new one when a record comes whose
        time is so much later than that of the first commit in it, and soon compacts what lies before."""
        with closing(self.open()) as log:
            later = to_batch([Row(b"nobody", None, SystemClock().now() + SEGMENT_MS + 60_000)])
            for partition in partitions_of(log.describe(TOTALS.name)):
                log.append(partition, later)
            connection = Connection(log, owned=False)
            deadline = time.monotonic() + COMPACT_SECONDS
            while True:
                keys = [record.key for record in connection.read(TOTALS) if record.value is not None]
                if len(keys) == len(set(keys)):
                    return
                if time.monotonic() > deadline:
                    raise LogError("demo-failed", "the broker did not compact the table", "try again")
                time.sleep(0.2)

    def size(self) -> int:
        """Of all segments: the rest are indexes, with room set aside."""
        return sum(file.stat().st_size for file in self._folder.rglob("*.log") if file.stem.isdigit())


@contextmanager
def own_broker() -> Iterator[tuple[str, BrokerLog]]:
    """A broker in a temporary folder; both are gone when the block ends, however it ends.

    Raises ConfigError (`no-java`, `old-java`, `no-maven`, `no-jars`) with what to install.
    """
    from tidegate.testing.broker import KafkaCluster
    from tidegate.testing.broker.jars import classpath, fetched

    if not fetched():
        with _working("fetching the broker with Maven, this once: about 120 MB"):
            classpath()
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as name:
        folder = Path(name)
        with _working("starting a broker"):
            cluster = KafkaCluster(folder)
        with cluster:
            yield cluster.url, BrokerLog(cluster.url, folder)


@contextmanager
def _working(what: str) -> Iterator[None]:
    """Tells that something takes a while: the seconds on a terminal, else a line."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        note(f"{what} ...")
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(what)
        yield
