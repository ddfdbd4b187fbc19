"""`tidegate plan --preview`: run the new code beside the live app, and show the rows that would differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pyarrow as pa
import typer

from tidegate.app import App
from tidegate.cli.on_spark import on_spark
from tidegate.cli.output import print_line, print_table
from tidegate.config.config import Config
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.upgrade.difference import Counts
    from tidegate.upgrade.previews import Preview

WithPreview = Annotated[
    bool, typer.Option("--preview", help="Run the new code beside the app, and compare the rows.")
]
Rows = Annotated[int, typer.Option("--rows", min=0, help="How many rows of each topic to show; default 20.")]
Parquet = Annotated[
    Path | None, typer.Option("--parquet", metavar="PATH", help="Write all rows that differ to this file.")
]
SCHEMA = pa.schema([(name, pa.string()) for name in ("sink", "key", "before", "after")])
GROUP_ROWS, GROUP_CHARACTERS = 10_000, 4 * 2**20
"""The most of a row group in a Parquet file."""


def previewed(app: App, config: Config) -> Preview:
    """Start Spark as `tidegate run` does, and preview the app."""
    with on_spark(app, config) as (session, slots, line):
        from tidegate.spark.recalculating import preview_on_spark  # Spark may not be installed

        return preview_on_spark(app, session, name=config.app, config=config, slots=slots, report=line)


def check_writable(path: Path | None) -> None:
    """Raise before the preview if the file cannot be written after it."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise ConfigError(
            "no-such-folder", f"{path} is not a file in an existing folder", "name another file"
        )


def write_parquet(found: Preview, path: Path) -> None:
    """Write all rows that differ, as text."""
    import pyarrow.parquet as pq  # takes longer to import than most commands run

    with pq.ParquetWriter(path, SCHEMA) as file:
        for group in _row_groups(found.each_text()):
            columns = [pa.array([row[name] for row in group], pa.string()) for name in SCHEMA.names]
            file.write_batch(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


def _row_groups(rows: Iterable[Mapping[str, str | None]]) -> Iterator[list[Mapping[str, str | None]]]:
    """Yield so many rows at a time that they need little memory."""
    group: list[Mapping[str, str | None]] = []
    size = 0
    for row in rows:
        group.append(row)
        size += sum(len(text or "") for text in row.values())
        if len(group) >= GROUP_ROWS or size >= GROUP_CHARACTERS:
            yield group
            group, size = [], 0
    if group:
        yield group


def as_plain(found: Preview, rows: int) -> dict[str, Any]:
    """Return a preview for JSON, with some rows of each topic."""
    return {
        "records": found.records,
        "failures": found.failures,
        "rounds": found.rounds,
        "settled": found.settled,
        "sinks": {topic: msgspec.to_builtins(counts) for topic, counts in found.counts.items()},
        "rows": found.texts(rows),
    }


def print_preview(found: Preview, rows: int) -> None:
    """Print the counts of each topic, and some of its rows."""
    print_line(f"\npreview over {found.records:,} records:")
    for topic, counts in found.counts.items():
        print_line(f"  {topic}: {_counted(counts)}")
        shown = [row for row in found.texts(rows) if row["sink"] == topic]
        if shown:
            cells = (("    " + str(row["key"]), row["before"] or "-", row["after"] or "-") for row in shown)
            print_table(cells, ("    key", "is", "would be"))
        if counts.differing > len(shown):
            print_line(f"    and {counts.differing - len(shown):,} more: --rows, or --parquet PATH for all")
    for line in _remarks(found):
        print_line(("  " + line, "yellow"))


def _counted(counts: Counts) -> str:
    named = {
        "put": counts.put,
        "changed": counts.changed,
        "removed": counts.removed,
        "equal": counts.equal,
        "of other writers": counts.foreign,
        "in flight": counts.in_flight,
    }
    always = ("put", "changed", "removed", "equal")
    return ", ".join(f"{count:,} {name}" for name, count in named.items() if count or name in always)


def _remarks(found: Preview) -> Iterator[str]:
    if found.failures:
        yield f"{found.failures:,} records failed in the new code, and were skipped"
    if not found.settled:
        yield "the live app had not processed everything that it had read: rows may differ that are only late"
    if any(counts.in_flight for counts in found.counts.values()):
        yield "rows in flight were written again while they were compared: repeat the preview"
