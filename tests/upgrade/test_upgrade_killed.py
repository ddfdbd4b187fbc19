"""An upgrade that is killed anywhere, and again in the repair: old or new, never mixed."""

from __future__ import annotations

import pytest
from tests.repetitions import SOAK
from tests.upgrade import versions
from tests.upgrade.stories import STORY, Killed, kill, send
from tests.upgrade.upgraded import added, check_live, check_upgraded, folded, seen
from tests.upgrade.versions import PARTITIONS, manifest_of

from tidegate import App
from tidegate.log.faultpoints import installed
from tidegate.runtime.topics.control import read_control
from tidegate.runtime.topics.upgrades import UpgradeEntry, upgrade_of
from tidegate.testing import Driver
from tidegate.testing.upgrades import upgrade_here
from tidegate.upgrade.consent import Consent

OURS = ("upgrade.", "recalculate.", "driver.", "abandon.", "remove-preview.", "commit.", "log.commit.")
ALL = Consent(yes=True, max_removed=1.0, former=True)


def upgrade_once(d: Driver, app: App, host: str = "one") -> UpgradeEntry | None:
    return upgrade_here(
        app, d.log, d.clock, d._folder / host, ALL, partitions=PARTITIONS, on_error="stop", batches=True
    )


def started() -> Driver:
    d = Driver(versions.chained(1), partitions=PARTITIONS)
    send(d, STORY[:40])
    d.run()
    d.stop()
    return d


def reached() -> list[str]:
    """The fault points of an upgrade, each as often as it is reached."""
    found: list[str] = []
    with started() as d, installed(found.append):
        upgrade_once(d, versions.chained(3))
    return found


def chosen(points: list[str]) -> list[int]:
    """The first arrival of each point, and all of them in the soak."""
    assert all(f"upgrade.{number}" in points for number in range(1, 9))
    ours = [number for number, point in enumerate(points) if point.startswith(OURS)]
    if SOAK:
        return ours
    first = {points.index(point) for point in points if point.startswith(("upgrade.", "remove-preview."))}
    return sorted({*first, *ours[5::61]})


def kill_at(d: Driver, number: int, app: App) -> bool:
    """Kill an upgrade at its n-th point. Returns whether it got there."""
    try:
        with installed(kill(number)):
            upgrade_once(d, app)
    except Killed:
        return True
    return False


def active(d: Driver) -> int:
    return read_control(d.log, "shop").active()


@pytest.mark.soak
def test_killed_twice_it_ends_with_the_rows_of_the_new_version() -> None:
    for number in chosen(reached()):
        with started() as d:
            before, known = {"out": seen(d.log, "out")}, manifest_of(d.log)
            old = folded(before["out"])
            assert kill_at(d, number, versions.chained(3))
            if active(d) == 1:
                assert seen(d.log, "out") == before["out"]
            kill_at(d, (number * 7) % 60, versions.chained(3))
            if active(d) == 1:
                assert seen(d.log, "out") == before["out"]
            upgrade_once(d, versions.chained(3))
            entry = upgrade_of(read_control(d.log, "shop"))
            assert entry is not None
            fresh = check_upgraded(d.log, versions.chained(3), entry, before, known)["out"]
            assert all(
                value in (old.get(key), fresh.get(key))
                for key, value in added(before["out"], seen(d.log, "out"))
            )
            d._app = versions.chained(3)
            send(d, STORY[40:])
            d.run()
            check_live(d, versions.chained(3), "out")


@pytest.mark.soak
def test_killed_before_the_decision_the_old_version_goes_on_and_the_new_one_notices() -> None:
    points = reached()
    decision = points.index("upgrade.6")
    for number in [number for number in chosen(points) if number <= decision][:: 1 if SOAK else 2]:
        with started() as d:
            assert kill_at(d, number, versions.chained(3))
            assert active(d) == 1
            send(d, STORY[40:50])
            d.run()
            before, known = {"out": seen(d.log, "out")}, manifest_of(d.log)
            d.stop()
            kill_at(d, (number * 5) % 90, versions.chained(3))
            upgrade_once(d, versions.chained(3))
            entry = upgrade_of(read_control(d.log, "shop"))
            assert entry is not None
            check_upgraded(d.log, versions.chained(3), entry, before, known)
            check_topics(d, entry)
            d._app = versions.chained(3)
            send(d, STORY[50:])
            d.run()
            check_live(d, versions.chained(3), "out")


def check_topics(d: Driver, entry: UpgradeEntry) -> None:
    """Candidates that were given up have no topics left."""
    given_up = range(2, entry.generation)
    assert not [topic for topic in d.log.names() if any(f".g{number}-" in topic for number in given_up)]
