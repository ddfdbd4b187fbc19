"""Upgrade an app: recalculate what changed, publish only what differs, and switch.

1 compare, and end with a question if something must be decided first: nothing is written; 2 the old version
stops, and is fenced: the app is taken over, and the candidate written to the control topic; 3 find where the
old version stopped; 4 recalculate what changed up to there, as a throw-away app; 5 compare with the rows that
the app owns: too many removed rows, or records that fail only in the new version, wait for consent; 6 decide:
one transaction makes the new generation the active one, with the positions of its tasks; 7 publish what
differs; 8 remove the throw-away app.

Before 6 a crash leaves the old generation in force, and nothing was published: the next start of the new
version goes on, unless the old one ran meanwhile. After 6 every start first finishes 7.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tidegate.clock import Clock
from tidegate.errors import FencedError, LogError, UpgradeError
from tidegate.log import names
from tidegate.log.faultpoints import reach
from tidegate.log.positions import Position, TaskId, position_row
from tidegate.log.protocol import Log
from tidegate.log.records import to_batch
from tidegate.log.topic import TopicInfo
from tidegate.runtime.driver.app_topics import (
    create_changelogs,
    create_internal_topics,
    ensure_declared_topics,
)
from tidegate.runtime.driver.run import Run
from tidegate.runtime.driver.takeover import Claim, Entries, check_active, take_over
from tidegate.runtime.replay import FAILED
from tidegate.runtime.topics.control import read_control, write_control
from tidegate.runtime.topics.decisions import decision_entry
from tidegate.runtime.topics.manifests import (
    active_manifest,
    append_active,
    append_manifest,
    manifest_of,
    visible_control,
)
from tidegate.runtime.topics.status import publish_status
from tidegate.runtime.topics.upgrades import (
    Question,
    UpgradeEntry,
    append_upgrade,
    consent_of,
    next_generation,
    upgrade_of,
)
from tidegate.topology.code import Code
from tidegate.topology.generations import continued
from tidegate.topology.graph import Topology
from tidegate.topology.identity import identified
from tidegate.topology.manifest import Manifest, partition_counts
from tidegate.topology.older import brought_up_to_date
from tidegate.types import TopicPartition
from tidegate.upgrade.abandon import OPEN, abandon, remove_leftovers, remove_staging
from tidegate.upgrade.candidate import check_carried, prepare_candidate, recalculated_components
from tidegate.upgrade.compared import publications
from tidegate.upgrade.component_plans import topic_names
from tidegate.upgrade.consent import Consent, failures, not_allowed, removals
from tidegate.upgrade.handover import new_positions, old_positions, same_stop, stopped_cut
from tidegate.upgrade.kept_differences import KeptDifferences
from tidegate.upgrade.lost import lost_upgrade, replaced
from tidegate.upgrade.make_plan import made_manifest, make_plan
from tidegate.upgrade.plan import UpgradePlan
from tidegate.upgrade.progress import Progress
from tidegate.upgrade.publication import complete, differences, publish_rest
from tidegate.upgrade.recalculate import Recalculation, Report, Runner, no_report
from tidegate.upgrade.topics_now import TopicsNow

POLL_SECONDS = 0.5
Wait = Callable[[UpgradeEntry], bool]
"""Called now and then while an upgrade waits for consent. Returns whether to go on waiting."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """How the old version ended."""

    questions: list[Question] = field(default_factory=list)
    """What must be decided because of that."""
    wall: int | None = None
    """The wall time in ms up to which its timers were called; None: that of its last commit."""


StopOld = Callable[[Manifest, UpgradePlan], Stopped]
"""Stops the run of the old version, if there is one."""


def nothing_to_stop(_known: Manifest, _plan: UpgradePlan) -> Stopped:
    """For a caller that has stopped the old version itself."""
    return Stopped()


def give_up(_entry: UpgradeEntry) -> bool:
    """Do not wait."""
    return False


@dataclass(frozen=True, slots=True)
class UpgradeResources:
    """What an upgrade uses."""

    topology: Topology
    log: Log
    clock: Clock
    runner: Callable[[Run], Runner]
    """Returns where the tasks of the recalculation run."""
    state_dir: Path | None
    partitions: int = 4
    on_error: str = "stop"
    batches: bool = True
    consent: Consent = field(default_factory=Consent)
    stop_old: StopOld = nothing_to_stop
    wait: Wait = give_up
    report: Report = no_report


def upgrade(resources: UpgradeResources) -> UpgradeEntry | None:
    """Upgrade an app to the code of a topology. Returns the upgrade, or None if there is nothing to do: the
    app never ran here, or its code is that of the active generation. Raises UpgradeError `upgrade-waits` for
    what needs a decision."""
    log, clock, app = resources.log, resources.clock, resources.topology.app
    with _replaced_if_fenced(log, app):
        finished = complete(log, app, clock)
    remove_leftovers(log, app, resources.state_dir, clock)
    plan = make_plan(log, resources.topology, clock)
    again = plan.changes.nothing and bool(plan.questions) and resources.consent.yes
    if plan.before == 0 or (plan.changes.nothing and not again):
        return finished
    reach("upgrade.1")
    _check(app, resources.consent, plan.questions)
    control = read_control(log, app)
    check_active(app, plan.before, control)  # the questions were about the generation of the plan
    known = active_manifest(control)
    assert known is not None  # noqa: S101 - it has a plan with a generation before
    reach("upgrade.2")
    stopped = resources.stop_old(known, plan)
    _check(app, resources.consent, stopped.questions)
    with _replaced_if_fenced(log, app):
        claim = take_over(log, app, known.generation, clock)
    with closing(claim):
        asked = [*plan.questions, *stopped.questions]
        steps = _Upgrade(resources, claim, known, stopped.wall, asked, again=again)
        with closing(steps):
            return steps.run()


@contextmanager
def _replaced_if_fenced(log: Log, app: str) -> Iterator[None]:
    """Raise UpgradeError `generation-replaced` if another process takes the app over at the same time."""
    try:
        yield
    except FencedError as error:
        raise replaced(app, visible_control(log, app)) from error


def _check(app: str, consent: Consent, questions: list[Question]) -> None:
    left = consent.open(questions)
    if left:
        raise not_allowed(app, left)


class _Upgrade:
    """An upgrade from step 2 on, by the holder of the app."""

    def __init__(
        self,
        resources: UpgradeResources,
        claim: Claim,
        known: Manifest,
        wall: int | None,
        asked: list[Question],
        *,
        again: bool,
    ) -> None:
        """`asked` are the questions that the consent has answered so far."""
        self._resources = resources
        self._asked = asked
        self._candidate: int | None = None
        self._claim = claim
        self._again = again
        self._wall = wall
        self._log, self._clock, self._app = resources.log, resources.clock, claim.app
        self._topology = identified(resources.topology, known)
        self._code = Code(resources.topology.module)
        self._known = known
        self._kept = KeptDifferences(resources.state_dir)

    def run(self) -> UpgradeEntry:
        """Upgrade. Raises UpgradeError `upgrade-cancelled` or `generation-replaced` once the upgrade was
        cancelled, or the app taken over."""
        try:
            return self._run()
        except Exception as error:
            if (lost := self._lost()) is not None:
                raise lost from error
            raise

    def _lost(self) -> UpgradeError | None:
        return lost_upgrade(self._log, self._app, self._claim.epoch, self._candidate)

    def _run(self) -> UpgradeEntry:
        entry, made = self._prepared()
        run = prepare_candidate(
            self._topology,
            self._log,
            self._clock,
            known=self._known,
            made=made,
            components=recalculated_components(made, self._known),
            on_error=self._resources.on_error,
            batches=self._resources.batches,
        )
        reach("upgrade.3")
        old, last_commit = old_positions(self._log, self._known)
        wall = last_commit if self._wall is None else self._wall
        cut = stopped_cut(run, self._known, old, wall or self._clock.now(), self._topology)
        if entry.cut is None:
            entry = self._write(msgspec.structs.replace(entry, cut=cut))
        elif not same_stop(entry.cut, cut, old):
            # The old version ran since the recalculation began.
            self._abandon()
            return self._run()
        assert entry.cut is not None  # noqa: S101 - it was written above
        reach("upgrade.4")
        recalculation = Recalculation(run, self._resources.runner(run), self._report)
        if run.context.topology.components:
            recalculation.run(entry.cut)
        reach("upgrade.5")
        entry = self._compared(entry, run, recalculation, made, old)
        reach("upgrade.6")
        self._decide(entry, made, new_positions(run, self._topology, made, self._known, old))
        done = publish_rest(self._log, self._claim.writer, self._app, self._clock, self._kept)
        assert done is not None  # noqa: S101 - it was decided above
        remove_staging(self._log, done, self._app, self._resources.state_dir, self._clock)
        return done

    def close(self) -> None:
        """Forget what was kept."""
        self._kept.close()

    def _report(self, progress: Progress) -> None:
        """Report how far the recalculation is: to the caller, and to the status topic for servers. Ends it if
        the upgrade was cancelled or replaced."""
        if (lost := self._lost()) is not None:
            raise lost
        self._resources.report(progress)
        now = self._clock.now()
        with suppress(LogError):
            publish_status(self._log, self._app, progress.status(self._claim.epoch, now), now)

    # --- step 2 -----------------------------------------------------------------------------------------

    def _prepared(self) -> tuple[UpgradeEntry, Manifest]:
        """Write the candidate, or continue with the one that an interrupted upgrade has written."""
        control = read_control(self._log, self._app)
        entry = upgrade_of(control)
        infos = ensure_declared_topics(self._log, self._topology, self._resources.partitions)
        if entry is not None and entry.state in OPEN and entry.before == self._known.generation:
            made = self._made(entry.generation)
            if made == manifest_of(control, entry.generation):
                self._candidate = made.generation
                if consented := self._consented(self._asked):
                    write_control(self._claim.writer, self._app, consented, self._clock.now())
                    self._claim.writer.commit()
                self._create_topics(made, infos)
                return entry, made
        self._abandon()
        made = self._made(next_generation(control))
        check_carried(self._log, made, self._known)
        now = self._clock.now()
        entry = UpgradeEntry(
            generation=made.generation, before=self._known.generation, state="recalculating", began=now
        )
        self._candidate = made.generation
        consented = self._consented(self._asked)
        append_manifest(self._claim.writer, made, now, self._code.recorded())
        write_control(self._claim.writer, self._app, consented, now)
        self._write(entry)
        self._create_topics(made, infos)
        return entry, made

    def _create_topics(self, made: Manifest, infos: Mapping[str, TopicInfo]) -> None:
        largest = max(info.setting("max.message.bytes") for info in infos.values())
        counts = partition_counts(self._topology, {**made.sources, **made.sinks}, made.internal_partitions)
        create_internal_topics(self._log, made, largest)
        create_changelogs(self._log, self._topology, made, counts, largest)

    def _made(self, generation: int) -> Manifest:
        now = TopicsNow(self._log, topic_names(self._topology, self._known))
        made = made_manifest(self._topology, now, self._known, self._code, generation)
        self._known = brought_up_to_date(self._topology, self._known, made)
        return continued(made, self._known, again=self._again)

    def _abandon(self) -> None:
        """Give up an earlier candidate, if there is one."""
        control = read_control(self._log, self._app)
        abandon(self._log, self._claim.writer, self._app, control, self._resources.state_dir, self._clock)

    def _write(self, entry: UpgradeEntry) -> UpgradeEntry:
        append_upgrade(self._claim.writer, self._app, entry, self._clock.now())
        self._claim.writer.commit()
        return entry

    def _consented(self, questions: list[Question]) -> Entries:
        """Return the entry with who allowed what these questions are about; none if a decision over HTTP or
        of an earlier process has recorded it.

        Called before anything is appended: the control topic is read to its end, and with records of its own
        open transaction there, a writer would wait for itself until the broker ends the transaction."""
        assert self._candidate is not None  # noqa: S101 - it is set in step 2
        decision = self._resources.consent.decision(self._candidate, questions, self._clock.now())
        if not decision.questions:
            return {}
        return decision_entry(read_control(self._log, self._app), decision)

    # --- steps 5 and 6 ----------------------------------------------------------------------------------

    def _compared(
        self,
        entry: UpgradeEntry,
        run: Run,
        recalculation: Recalculation,
        made: Manifest,
        old: dict[TaskId, Position],
    ) -> UpgradeEntry:
        """Compare, and wait for consent where it is needed: step 5."""
        publishes = publications(self._log, run, self._topology, self._known, made)
        found = {one.name: differences(self._log, self._app, one, self._kept) for one in publishes}
        failed = recalculation.failures()
        entry = msgspec.structs.replace(entry, publishes=publishes, differences=found, failures=failed)
        failed_before = sum(int(position.progress.get(FAILED, "0")) for position in old.values())
        most = self._resources.consent.max_removed
        questions = [
            *failures(failed, failed_before),
            *(question for name, one in found.items() for question in removals(name, one, most)),
        ]
        self._asked = questions
        consent, waiting = self._consent(), False
        while left := consent.open(questions):
            if not waiting or left != entry.questions:
                entry = self._write(msgspec.structs.replace(entry, state="waiting", questions=left))
                waiting = True
            if not self._resources.wait(entry):
                raise not_allowed(self._app, left)
            time.sleep(POLL_SECONDS)
            consent = self._consent()
        return entry

    def _consent(self) -> Consent:
        """Return what is allowed by now. Raises if the upgrade was cancelled or the app taken over."""
        if (lost := self._lost()) is not None:
            raise lost
        return self._resources.consent.with_entry(consent_of(read_control(self._log, self._app)))

    def _decide(self, entry: UpgradeEntry, made: Manifest, positions: dict[TaskId, Position]) -> None:
        """Switch: one transaction, step 6."""
        consented = self._consented(self._asked)
        now, writer = self._clock.now(), self._claim.writer
        rows = [position_row(task, position, now) for task, position in positions.items()]
        if rows:
            writer.append(TopicPartition(names.positions(self._app), 0), to_batch(rows))
        append_active(writer, made, now)
        write_control(writer, self._app, consented, now)
        append_upgrade(
            writer, self._app, msgspec.structs.replace(entry, state="publishing", questions=[]), now
        )
        writer.commit()
