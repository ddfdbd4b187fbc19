"""The end of the demo's script: version 2 of the app, which counts no small orders.

1 remember where the totals end; 2 raise `min_cents` in tidegate.toml, so that a few orders do not count any
more; 3 start the app again: it notices the change, recalculates, and publishes; 4 check that exactly one
record was published for each customer whose total differs, and that all totals are those of version 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tidegate.cli.demo.processes import Child
from tidegate.cli.demo.running import failed
from tidegate.cli.demo.screen import Screen
from tidegate.cli.demo.source import ADMITTED, TOTALS, Totals
from tidegate.config.config import FILE
from tidegate.connect.connection import Connection
from tidegate.log.route import partitions_of

SMALL_ORDERS = 3
"""How many orders version 2 leaves out, at least."""
UPGRADE_SECONDS = 180.0


def show_upgrade(folder: Path, connection: Connection, slots: str, screen: Screen) -> None:
    """Upgrade the app, and check what was published; raises `demo-failed`."""
    before = connection.rows(TOTALS)
    least = sorted(record.value.cents for record in connection.read(ADMITTED))[SMALL_ORDERS - 1] + 1
    expected = _totals(connection, least)
    differing = {name for name in before.keys() | expected.keys() if before.get(name) != expected.get(name)}
    ends = connection.log.ends(partitions_of(connection.log.describe(TOTALS.name)))
    with (folder / FILE).open("a") as file:
        file.write(f"\n[settings]\nmin_cents = {least}\n\n[upgrade]\nmax_removed = 1.0\n")
    screen.report(
        "changing", f"  version 2: orders below {least} cents do not count any more; starting it ..."
    )
    with Child(folder, "run", "--slots", slots, "--until-caught-up") as app:
        app.wait(UPGRADE_SECONDS)
    published = [
        record.key
        for partition, end in ends.items()
        for record in connection.read(TOTALS, partition=partition.partition, start=end)
    ]
    if sorted(published) != sorted(differing):
        raise failed(f"the upgrade published {sorted(published)}, and {sorted(differing)} differ")
    if connection.rows(TOTALS) != expected:
        raise failed("the totals are not those of version 2")
    screen.report(
        "upgraded",
        f"  ok  the totals of {len(differing)} of {len(before)} customers differ, and the upgrade published "
        f"{len(published)} records",
        differing=len(differing),
        published=len(published),
        min_cents=least,
    )


def _totals(connection: Connection, least: int) -> Mapping[str, Totals]:
    """The totals of all orders that passed the gate and are not below a limit."""
    found: dict[str, Totals] = {}
    for record in connection.read(ADMITTED):
        if record.value.cents >= least:
            found[record.key] = found.get(record.key, Totals()).plus(record.value)
    return found
