"""The broker of `tidegate demo --kafka`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tidegate.cli.output import print_note


@contextmanager
def own_broker() -> Iterator[str]:
    """Run a broker in a temporary folder, and yield its URL; both are removed when the block ends.

    Raises ConfigError (`no-java`, `old-java`, `no-maven`, `no-jars`) with what to install.
    """
    from tidegate.testing.broker import KafkaCluster
    from tidegate.testing.broker.jars import classpath, fetched

    if not fetched():
        with _working("downloading the broker with Maven, only once: about 120 MB"):
            classpath()
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-") as name:
        folder = Path(name)
        with _working("starting a broker"):
            cluster = KafkaCluster(folder)
        with cluster:
            yield cluster.url


@contextmanager
def _working(what: str) -> Iterator[None]:
    """Show what takes a while: with the elapsed seconds on a terminal, else as a line."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        print_note(f"{what} ...")
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(what)
        yield
