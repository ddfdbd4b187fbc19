"""One random upgrade: what is sent before, between and after, where it is killed, and what must hold.

The rows of each table equal those that `expected` calculates for the new version, and a committed reader sees
one record for each row that differs; each event is sent once, by the version that processed its record; what
a gate has admitted is not admitted again; each id of a model whose state differs has one more version.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.upgrade.expected import (
    Pair,
    Records,
    Sent,
    Span,
    encoded,
    number,
    number_bytes,
    passed,
    sent_events,
    states,
    table_rows,
)
from tests.upgrade.model_rows import ModelSeen, check_versions, read_model
from tests.upgrade.random_apps import RATES, SOURCES, Pipeline, Spec, build
from tests.upgrade.stories import Killed, kill
from tests.upgrade.test_upgrade_killed import ALL
from tests.upgrade.upgraded import Seen, added, check_nothing_left, folded, seen
from tests.upgrade.versions import START

from tidegate.clock import ManualClock
from tidegate.errors import ConfigError
from tidegate.log import names
from tidegate.log.faultpoints import installed
from tidegate.log.partitioner import partition_for
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.topics.control import read_control
from tidegate.runtime.topics.manifests import find_manifest
from tidegate.runtime.topics.upgrades import UpgradeEntry, upgrade_of
from tidegate.testing import Commit, Driver
from tidegate.testing.upgrades import upgrade_here
from tidegate.types import TopicPartition

APP = "shop"
MEMORY = Path("/dev/shm")  # noqa: S108 - the driver makes a folder of its own in it
Turn = list[tuple[str, str, int, int]]
"""Topic, key, value, and time of each record. A 0 in the table deletes the row."""
Commands = list[tuple[str, str]]
"""What is requested of all gates: pause or resume, and the key."""


@dataclass(frozen=True, slots=True)
class History:
    """What happens around an upgrade."""

    turns: list[tuple[Turn, Commands]]
    """What the old version processes, run by run."""
    crash: Commit | None = None
    """Where its last run crashes."""
    kills: list[int] = field(default_factory=list)
    """At which fault point each attempt of the upgrade is killed."""
    between: Turn = field(default_factory=list)
    """What the old version processes after a kill, if it is still in force."""
    after: Turn = field(default_factory=list)
    """What the new version processes."""
    unread: bool = False
    """Whether that is in the sources when the upgrade begins."""
    partitions: int = 2


class Trial:
    """An app on a log in memory, and what was sent to it."""

    def __init__(self, old: Spec, new: Spec, history: History) -> None:
        self.old, self.new, self.history = old, new, history
        self.app = build(new)
        topics = [*SOURCES, RATES]
        self.records: Records = {
            TopicPartition(topic, n): [] for topic in topics for n in range(history.partitions)
        }
        self.spans: list[Span] = []
        """What the old version merged, run by run."""
        self.stopped: dict[TopicPartition, int] = dict.fromkeys(self.records, 0)
        self.paused = False

    def run(self) -> None:
        clock = ManualClock()
        with (
            closing(SqliteLog(clock=clock, upkeep=False)) as log,
            Driver(build(self.old), partitions=self.history.partitions, log=log, clock=clock) as d,
        ):
            for at in self.records:
                policy = {"cleanup.policy": "compact" if at.topic == RATES else "delete"}
                log.create(TopicSpec(at.topic, self.history.partitions, policy))
            for turn, commands in self.history.turns:
                self._turn(d, turn, commands, last=turn is self.history.turns[-1][0])
            self._stop(d)
            if self.history.unread:
                self._send(d, self.history.after)
            try:
                entry = self._upgraded(d)
            except ConfigError as error:
                if error.code != "id-taken":
                    raise
                return  # nothing of the old version is left
            switched = _Switched(self, d, entry)
            switched.check()
            if not self.history.unread:
                self._send(d, self.history.after)
            self._go_on(d)
            switched.check_live()

    # --- before -----------------------------------------------------------------------------------------

    def _turn(self, d: Driver, turn: Turn, commands: Commands, *, last: bool = False) -> None:
        start = self.ends()
        self._send(d, turn)
        if d._run is not None:
            for name in self.old.gates():
                for what, key in commands:
                    self.paused = True
                    gate = d.gate(name)
                    gate.pause(key) if what == "pause" else gate.resume(key)
        crash = self.history.crash if last else None
        if crash is not None and any(topic in self.old.topics() for topic, *_ in turn):
            d.crash(crash)
        d.run()
        self.spans.append(Span(start, self.ends()))

    def _send(self, d: Driver, turn: Turn) -> None:
        rows: dict[TopicPartition, list[Row]] = {}
        for topic, key, value, time in turn:
            at = TopicPartition(topic, partition_for(key.encode(), self.history.partitions))
            sent = Sent(START + time, key, None if topic == RATES and value == 0 else value)
            self.records[at].append(sent)
            data = None if sent.value is None else number_bytes(sent.value)
            rows.setdefault(at, []).append(Row(key.encode(), data, sent.time))
        for at, found in rows.items():
            d.log.append(at, to_batch(found))

    def ends(self) -> dict[TopicPartition, int]:
        return {at: len(sent) for at, sent in self.records.items()}

    def _stop(self, d: Driver) -> None:
        """Stop the old version, and check what it has written."""
        d.stop()
        self.stopped = self.ends()
        self.before = _Outputs(d, self.old, self.new)
        for one in self.old.pipelines:
            found = passed(one, self.old.most, self.records, self.spans)
            pairs = [pair for span in found for pair in span]
            if one.gate:
                pairs = self.before.admitted(one)
            self.before.check(self.old, one, pairs)
            if one.events:
                events = Counter(sent_events(one, self.old.most, pairs))
                assert self.before.events(one) == events, one

    # --- the upgrade --------------------------------------------------------------------------------------

    def _upgraded(self, d: Driver) -> UpgradeEntry | None:
        for at in self.history.kills:
            try:
                with installed(kill(at)):
                    self._upgrade_once(d)
            except Killed:
                active = read_control(d.log, APP).active()
                if active == 1:
                    now, fresh = _Outputs(d, self.old, self.new).seen, self._fresh_admitted()
                    for topic in self.before.seen.keys() - fresh:
                        assert now[topic] == self.before.seen[topic], topic
                    if self.history.between and not self.history.unread:
                        self._turn(d, self.history.between, [])
                        self._stop(d)
        self._upgrade_once(d)
        d._app, d._topology = self.app, self.app.build()
        return upgrade_of(read_control(d.log, APP))

    def _fresh_admitted(self) -> set[str]:
        """Return the admitted topics of new gates. They belong to the candidate: a recalculation fills them,
        and an earlier one that was killed may have created them."""
        return {_admitted(one) for one in self.new.pipelines if one.gate_name not in self.old.gates()}

    def _upgrade_once(self, d: Driver) -> None:
        upgrade_here(
            self.app,
            d.log,
            d.clock,
            d._folder / "one",
            ALL,
            partitions=self.history.partitions,
            on_error="stop",
            batches=True,
        )

    def _go_on(self, d: Driver) -> None:
        """Run the new version, and open all gates."""
        d.run()
        if self.paused and self.new.gates():
            for name in self.new.gates():
                gate = d.gate(name)
                for key in {key for _, commands in self.history.turns for _, key in commands}:
                    gate.resume(key)
            d.run()


class _Outputs:
    """What a committed reader sees of all that both versions write."""

    def __init__(self, d: Driver, old: Spec, new: Spec) -> None:
        existing = set(d.log.names())
        pipelines = [*old.pipelines, *new.pipelines]
        topics = {one.table for one in pipelines if one.end}
        topics |= {one.event_topic for one in pipelines if one.events}
        topics |= {_admitted(one) for one in pipelines if one.gate}
        self.seen: dict[str, dict[int, Seen]] = {
            topic: seen(d.log, topic) for topic in topics if topic in existing
        }
        self.model: ModelSeen = read_model(d.log, APP, "m")

    def rows(self, topic: str) -> dict[bytes, bytes]:
        return folded(self.seen.get(topic, {}))

    def check(self, spec: Spec, one: Pipeline, pairs: list[Pair]) -> None:
        if one.end is not None:
            assert self.rows(one.table) == encoded(table_rows(one, spec.most, pairs)), one

    def events(self, one: Pipeline) -> Counter[Pair]:
        return Counter(self._pairs(one.event_topic))

    def admitted(self, one: Pipeline) -> list[Pair]:
        return self._pairs(_admitted(one))

    def _pairs(self, topic: str) -> list[Pair]:
        records = (record for records in self.seen.get(topic, {}).values() for record in records)
        return [(key.decode(), number(value)) for key, value in records if key]


def _admitted(one: Pipeline) -> str:
    return names.gate(APP, one.gate_name, "admitted")


class _Switched:
    """What must hold after the switch, and after the new version ran."""

    def __init__(self, trial: Trial, d: Driver, entry: UpgradeEntry | None) -> None:
        self.trial, self.d, self.entry = trial, d, entry
        self.cut = {} if entry is None or entry.cut is None else entry.cut.offsets()
        for at in self.cut.keys() & trial.records.keys():
            if at.topic in trial.old.topics():
                assert self.cut[at] == trial.stopped[at], at
        manifest = find_manifest(d.log, APP)
        assert manifest is not None
        self._kept = {
            manifest.nodes[node].topic
            for component in manifest.components.values()
            if entry is None or component.generation != entry.generation
            for node in component.nodes()
        }
        """The topics that components read and write which did not change."""

    def check(self) -> None:
        trial, before = self.trial, self.trial.before
        after = _Outputs(self.d, trial.old, trial.new)
        expected: dict[str, dict[bytes, bytes]] = {table: {} for table in trial.old.tables()}
        for one in trial.new.pipelines:
            if one.end is not None:
                pairs = self._passed(one, after, live=False)
                expected[one.table] = encoded(table_rows(one, trial.new.most, pairs))
        for table, rows in expected.items():
            assert after.rows(table) == rows, table
            old = before.rows(table)
            differing = {key for key in rows.keys() | old.keys() if rows.get(key) != old.get(key)}
            published = added(before.seen.get(table, {}), after.seen.get(table, {}))
            assert Counter(key for key, _ in published) == Counter(differing), table
            if self.entry is not None and table in self.entry.differences:
                assert self.entry.differences[table].differing == len(differing), table
        gates = {_admitted(one) for one in trial.new.pipelines if one.gate and not self._carries_gate(one)}
        for topic in after.seen.keys() - expected.keys() - gates:
            if topic in before.seen:
                assert after.seen[topic] == before.seen[topic], topic
        if trial.old.model is not None or trial.new.model is not None:
            check_versions(before.model, after.model, self._states(live=False))
        check_nothing_left(self.d.log, APP)

    def check_live(self) -> None:
        trial, before = self.trial, self.trial.before
        after = _Outputs(self.d, trial.old, trial.new)
        for one in trial.new.pipelines:
            after.check(trial.new, one, self._passed(one, after, live=True))
            if one.gate:
                self._check_gate(one, after)
            if one.events:
                sent = sent_events(one, trial.new.most, self._passed_live(one, before, after))
                assert after.events(one) == before.events(one) + Counter(sent), one
        self.d.assert_stores_match_changelogs()
        if trial.new.model is not None:
            after.model.check_states(self._states(live=True))
            after.model.check_fold()

    def _spans(self, one: Pipeline, *, live: bool) -> list[Span]:
        """What the tasks of a pipeline have merged; live: also since the switch."""
        trial = self.trial
        if {*one.sources} & self._kept:
            spans = list(trial.spans)
        elif any(at.topic in one.sources for at in self.cut):
            spans = [Span({}, self.cut)]
        else:
            spans = []
        return [*spans, Span(self._starts(one), trial.ends())] if live else spans

    def _starts(self, one: Pipeline) -> dict[TopicPartition, int]:
        trial = self.trial
        read = trial.old.topics()
        gated = self._carries_gate(one)
        if not gated and not self._spans(one, live=False) and not {*one.sources} & self._kept:
            return dict.fromkeys(trial.records, 0)  # a new component that nothing is recalculated for
        return {
            at: (0 if gated and at.topic not in read and at.topic != RATES else self.cut[at])
            if at in self.cut
            else (trial.stopped[at] if at.topic in read else 0)
            for at in trial.records
        }

    def _carries_gate(self, one: Pipeline) -> bool:
        return one.gate and one.gate_name in self.trial.old.gates()

    def _passed(self, one: Pipeline, after: _Outputs, *, live: bool) -> list[Pair]:
        if self._carries_gate(one):
            return after.admitted(one)
        trial = self.trial
        found = passed(one, trial.new.most, trial.records, self._spans(one, live=live))
        return [pair for span in found for pair in span]

    def _passed_live(self, one: Pipeline, before: _Outputs, after: _Outputs) -> list[Pair]:
        """What has passed since the switch."""
        if self._carries_gate(one):
            earlier, now = (outputs.seen[_admitted(one)] for outputs in (before, after))
            return [(key.decode(), number(value)) for key, value in added(earlier, now) if key]
        trial = self.trial
        return passed(one, trial.new.most, trial.records, self._spans(one, live=True))[-1]

    def _check_gate(self, one: Pipeline, after: _Outputs) -> None:
        """All that came to the gate was admitted once, in order, whichever version it came from."""
        trial = self.trial
        if not self._carries_gate(one):
            expected = self._passed(one, after, live=True)
        else:
            former = trial.old.pipeline(one.name)
            assert former is not None
            starts = self._starts(one)
            # Rates that no version had read before the cut are in the table when the new one starts.
            spans = [Span(dict.fromkeys(starts, 0), starts), Span(starts, trial.ends())]
            expected = [
                *(
                    pair
                    for span in passed(former, trial.old.most, trial.records, trial.spans)
                    for pair in span
                ),
                *passed(one, trial.new.most, trial.records, spans)[-1],
            ]
        found = after.admitted(one)
        assert Counter(found) == Counter(expected), one

    def _states(self, *, live: bool) -> dict[str, dict[str, int]]:
        trial, model = self.trial, self.trial.new.model
        if model is None:
            return {}
        if live:
            return states(model, trial.records, trial.ends())
        if model.source in self._kept:
            return states(model, trial.records, trial.stopped)
        ends = {at: self.cut.get(at, 0) for at in trial.records}
        return states(model, trial.records, ends)


def check_upgrade(old: Spec, new: Spec, history: History) -> None:
    """Run one upgrade, in memory where that is possible. Raises AssertionError for what does not hold."""
    with pytest.MonkeyPatch.context() as patch:
        if MEMORY.is_dir():
            patch.setattr(tempfile, "tempdir", str(MEMORY))
        Trial(old, new, history).run()
