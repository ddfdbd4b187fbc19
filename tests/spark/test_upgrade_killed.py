"""Upgrades on Spark under SIGKILL and SIGSTOP, each command a process of its own: an app is the old or the
new version, never a mixture."""

from __future__ import annotations

import signal
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.spark.cluster import of_session, send_to_session
from tests.spark.command import Command
from tests.spark.killed_command import REPAIR, Point, command, end, kill_at
from tests.spark.scenarios import SCENARIOS
from tests.spark.two_versions import SQLITE, written_versions
from tests.spark.upgrade_story import PARTITIONS, AllSeen, Story
from tests.upgrade.upgraded import added, check_upgraded
from tests.upgrade.versions import fresh_rows
from tests.waiting import HANG_SECONDS, wait_for

from tidegate.clock import SystemClock
from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.load import load_app
from tidegate.log import names
from tidegate.log.route import partitions_of
from tidegate.runtime.driver.coordinator import DriverState
from tidegate.runtime.topics.control import read_control
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.spark.running import Running, Upgrading
from tidegate.topology.manifest import Manifest
from tidegate.types import Offset, TopicPartition
from tidegate.upgrade.publication import complete

Start = Callable[..., Running]
SCENARIO = SCENARIOS["source key change"]
"""Publishes in four transactions: tombstones in three partitions, and rows in one."""
KILLS: list[tuple[list[Point], list[Point]]] = [
    ([("upgrade.2", 1)], [("upgrade.4", 1)]),
    ([("drain.5", 1)], [("recalculate.3", 1)]),
    ([("recalculate.3", 1)], [("recalculate.3", 2)]),
    ([("recalculate.3", 1), ("seconds", 3)], [("recalculate.3", 2), ("seconds", 2)]),
    ([("recalculate.2", 2)], [("upgrade.5", 1)]),
    ([("upgrade.5", 1)], [("upgrade.6", 1), ("log.commit.7", 1)]),
    ([("upgrade.6", 1)], [("upgrade.7", 1)]),
    ([("upgrade.6", 1), ("log.commit.7", 1)], [("upgrade.6", 1), ("log.commit.8", 1)]),
    ([("upgrade.7", 2), ("log.commit.7", 1)], [("upgrade.7", 2), ("log.commit.8", 1)]),
    ([("upgrade.7", 4)], [("upgrade.8", 1)]),
    ([("upgrade.8", 1)], [("remove-preview.2", 1)]),
]
"""Where the first process is killed, and where the second one, which repairs it."""


@pytest.fixture
def prefix() -> str:
    return f"u{uuid.uuid4().hex[:8]}"


@pytest.fixture
def kind() -> str:
    return "kafka"


@pytest.fixture
def config(
    kind: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Config]:
    url = request.getfixturevalue("kafka").url if kind == "kafka" else SQLITE
    lines = [f'log = "{url}"', f"partitions = {PARTITIONS}"]
    lines += ["[spark]", 'master = "local[2]"', "[upgrade]", f'allow_removals = ["{prefix}-out"]']
    (tmp_path / "tidegate.toml").write_text("\n".join(lines))
    texts = SCENARIO.texts(prefix)
    with written_versions(texts, prefix, tmp_path, monkeypatch, log=url, partitions=PARTITIONS) as found:
        yield found


@pytest.fixture
def story(config: Config, log: Connection, prefix: str) -> Story:
    return Story(SCENARIO, prefix, config, log)


class Killed:
    """What an upgrade that was killed may have written."""

    def __init__(self, story: Story, log: Connection) -> None:
        self._story, self._log = story, log
        self._known = find_manifest(log.log, story.prefix)
        self.before: AllSeen = story.seen()

    @property
    def known(self) -> Manifest | None:
        return self._known

    def generation(self) -> int:
        return read_control(self._log.log, self._story.prefix).active()

    def check(self) -> None:
        """It is the old version, or the new one with some of its corrections."""
        now, out = self._story.seen(), self._story.out
        assert now[self._story.events] == self.before[self._story.events]
        if self.generation() == 1:
            assert now == self.before
            return
        entry = self._story.entry()
        assert entry.cut is not None
        fresh = fresh_rows(load_app(self._story.version(2)), self._log.log, entry.cut, self._known)[out]
        published = added(self.before[out], now[out])
        assert set(Counter(key for key, _ in published).values()) <= {1}
        assert all(value == fresh.get(key) for key, value in published)

    def check_done(self) -> None:
        app, out = load_app(self._story.version(2)), self._story.out
        check_upgraded(self._log.log, app, self._story.entry(), {out: self.before[out]}, self._known)


def written(log: Connection, prefix: str) -> dict[TopicPartition, Offset]:
    """The ends of all topics of an app but that of its reports."""
    topics = [name for name in log.log.names() if name.startswith(prefix) and name != names.status(prefix)]
    at = [one for topic in topics for one in partitions_of(log.log.describe(topic))]
    return dict(log.log.ends(at, committed=False))


def stop(run: Command, log: Connection, *topics: str, in_transaction: bool) -> None:
    """Stop all processes of a run while it has a transaction with records of these topics open, or none."""
    at = [one for topic in topics for one in partitions_of(log.log.describe(topic))]

    def stopped() -> bool:
        assert run.process.poll() is None, "the run has ended by itself"
        send_to_session(run.process.pid, signal.SIGSTOP)
        if (log.log.ends(at, committed=False) != log.log.ends(at)) == in_transaction:
            return True
        send_to_session(run.process.pid, signal.SIGCONT)
        return False

    wait_for(stopped, every=0.037)


def go_on(start: Start, story: Story, lost: frozenset[int] = frozenset()) -> None:
    """Run the new version, which was upgraded to, and check its rows and all events."""
    new = start(story.version(2))
    story.send(30)
    story.wait_for_rows()
    new.stop()
    assert new.wait(HANG_SECONDS)
    events = story.sent_events()
    assert set(events.values()) == {1}
    assert set(story.numbers) - events.keys() <= lost


@pytest.mark.parametrize(
    "in_transaction",
    [
        pytest.param(False, id="between transactions"),
        pytest.param(True, id="in a transaction", marks=pytest.mark.soak(only="starts Spark twice")),
    ],
)
def test_killed_between_publications_and_in_the_repair_while_the_old_version_sleeps(
    start: Start, config: Config, log: Connection, story: Story, prefix: str, *, in_transaction: bool
) -> None:
    """The old version is stopped with all its processes, and with records to process. It wakes after the
    decision: nothing that it writes counts. The broker aborts a transaction that was open by itself, after 10
    seconds. Events of records that were left in internal topics are lost, to which `--yes` consents."""
    story.send(60)
    with command(config, "run", story.version(1)) as old:
        story.wait_for_events()
        with story.sending():
            stop(old, log, story.out, story.events, in_transaction=in_transaction)
        story.send(20)
        killed = Killed(story, log)
        undelivered = frozenset(story.numbers) - story.sent_events().keys()
        upgrading = kill_at(config, [("upgrade.7", 3)], "upgrade", story.version(2), "--yes")
        end(upgrading)
        assert killed.generation() == 2
        killed.check()
        end(kill_at(config, [("upgrade.7", 2)], prefix, program=REPAIR))
        killed.check()
        assert story.entry().state == "publishing"
        ends = written(log, prefix)
        send_to_session(old.process.pid, signal.SIGCONT)
        assert old.process.wait(HANG_SECONDS) == 1, old.lines
        wait_for(lambda: not of_session(old.process.pid))
        assert written(log, prefix) == ends
    complete(log.log, prefix, SystemClock())
    killed.check_done()
    go_on(start, story, undelivered)


def cases() -> Iterator[object]:
    for kind, kills in (("kafka", KILLS), ("sqlite", KILLS[1::3])):
        for first, second in kills:
            points = ", then ".join(">".join(point for point, _ in points) for points in (first, second))
            yield pytest.param(kind, first, second, id=f"{points} on {kind}")


@pytest.mark.soak(only="starts Spark twice for each")
@pytest.mark.parametrize(("kind", "first", "second"), list(cases()))
def test_killed_anywhere_and_again_in_the_repair_an_app_is_old_or_new(
    start: Start, config: Config, log: Connection, story: Story, first: list[Point], second: list[Point]
) -> None:
    story.send(60)
    old = start(story.version(1))
    story.wait_for_events()
    if first[0][0] != "drain.5":
        old.stop()
        assert old.wait(HANG_SECONDS)
    killed = Killed(story, log)
    one = kill_at(config, first, "upgrade", story.version(2))
    killed.check()
    assert old.wait(HANG_SECONDS)
    if killed.generation() == 1:
        again = start(story.version(1))
        story.send(20)
        story.wait_for_events()
        again.stop()
        assert again.wait(HANG_SECONDS)
        killed = Killed(story, log)
    two = kill_at(config, second, "run", story.version(2))
    killed.check()
    new = start(story.version(2), upgrading=Upgrading(story.consent))
    wait_for(lambda: new.state is DriverState.RUNNING)
    killed.check_done()
    new.stop()
    assert new.wait(HANG_SECONDS)
    go_on(start, story)
    for dead in (one, two):
        end(dead)
