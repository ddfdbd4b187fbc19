"""What must be decided before an upgrade, and what a plan cannot see."""

from __future__ import annotations

import inspect
import os
import re
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
from examples.stores.json_folder import JsonFolder
from tests.upgrade.planned import (
    MAILS,
    ORDERS,
    PHONE,
    RATES,
    TOTALS,
    codes,
    look,
    only,
    plain,
    planned,
    ran,
    shop,
    two,
)

import tidegate
from tidegate import App, stores
from tidegate.clock import ManualClock
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.topics.control import ACTIVE, Active, write_control
from tidegate.runtime.topics.manifests import append_manifest, find_manifest, recorded_code
from tidegate.state.builder import StoreBuilder
from tidegate.testing import Driver
from tidegate.topology.code import Code
from tidegate.topology.generations import continued
from tidegate.topology.identity import identified
from tidegate.topology.manifest import make_manifest
from tidegate.types import Offset, TopicPartition


def test_deleted_history_is_asked_for_a_component_that_is_recalculated(log: SqliteLog) -> None:
    ran(log, plain(), ada=[1, 2, 3])
    for number in range(2):
        partition = TopicPartition("orders", number)
        log.purge(partition, Offset(log.ends([partition])[partition]))
    assert planned(log, plain()).state == "nothing"
    plan = planned(log, plain(filtered=True))
    assert (plan.state, plan.exit_code, codes(plan)) == ("ask", 3, ["history-cut"])
    [read] = only(plan).reads
    assert (read.complete, read.records) == (False, 0)


def test_history_that_was_deleted_before_the_first_start_is_not_asked(log: SqliteLog) -> None:
    log.create(TopicSpec("orders", 2))
    for number in range(2):
        partition = TopicPartition("orders", number)
        log.append(partition, to_batch([Row(b"old", b"9", 0)]))
        log.purge(partition, Offset(1))
    ran(log, plain(), ada=[1, 2, 3])
    plan = planned(log, plain(filtered=True))
    assert (plan.state, only(plan).reads[0].records, only(plan).reads[0].starts) == ("changes", 3, [1, 1])


def changes_of_rows(filtered: bool) -> App:
    app = App("shop")
    rows = app.stream(RATES)
    (rows.filter(bool) if filtered else rows).count("changes").to(TOTALS)
    return app


def test_a_stream_over_a_compacted_topic_is_asked(log: SqliteLog) -> None:
    ran(log, changes_of_rows(filtered=False))
    assert codes(planned(log, changes_of_rows(filtered=True))) == ["compacted-source"]


def test_a_lost_sink_is_asked(log: SqliteLog) -> None:
    ran(log, plain(), ada=[1])
    log.delete("totals")
    assert codes(planned(log, plain(filtered=True))) == ["sink-lost"]


def test_a_sink_whose_rows_expire_is_asked(log: SqliteLog) -> None:
    log.create(TopicSpec("totals", 2, {"cleanup.policy": "compact,delete"}))
    ran(log, plain(), ada=[1])
    assert codes(planned(log, plain(filtered=True))) == ["sink-deletes"]


def test_rows_that_no_step_writes_any_more_are_asked(log: SqliteLog) -> None:
    ran(log, two(extra=False), ada=[1])
    append_call(log)
    plan = planned(log, plain())
    assert codes(plan) == ["rows-removed"]
    assert plan.questions[0].consent == "tidegate upgrade --allow-removals calls"
    assert {one.id: one.action for one in plan.components} == {"sums": "keep", "calls": "remove"}
    assert codes(planned(log, two(extra=True))) == []


def append_call(log: SqliteLog) -> None:
    with Driver(two(extra=False), log=log, partitions=2, clock=ManualClock()) as driver:
        driver.send(PHONE, "k", 1)
        driver.run()


def test_a_gate_that_is_gone_with_held_events_is_asked(log: SqliteLog) -> None:
    with Driver(shop(), log=log, partitions=2, clock=ManualClock()) as driver:
        driver.gate("door").pause("ada")
        driver.run()
        driver.send(ORDERS, "ada", 4)
        driver.run()
    assert "held-events" in codes(planned(log, plain()))


def kept_elsewhere(filtered: bool) -> App:
    app = App("shop")
    orders = app.stream(ORDERS)
    own = stores.key_value("own", int).backed_by(JsonFolder)
    (orders.filter(bool) if filtered else orders).process("look", look, stores=[own]).to(MAILS)
    return app


def test_a_store_of_the_users_own_is_asked(log: SqliteLog) -> None:
    ran(log, kept_elsewhere(filtered=False), ada=[1])
    assert planned(log, kept_elsewhere(filtered=False)).state == "nothing"
    assert codes(planned(log, kept_elsewhere(filtered=True))) == ["own-store"]


def without_changelog(store: StoreBuilder[Any], filtered: bool) -> App:
    app = App("shop")
    orders = app.stream(ORDERS)
    looked = (orders.filter(bool) if filtered else orders).process("look", look, stores=[store])
    looked.process("look-again", look, stores=[store]).to(MAILS)
    return app


def test_a_store_without_a_changelog_is_asked_once(log: SqliteLog) -> None:
    store = stores.key_value("seen", int).without_changelog()
    ran(log, without_changelog(store, filtered=False), ada=[1])
    assert planned(log, without_changelog(store, filtered=False)).state == "nothing"
    plan = planned(log, without_changelog(store, filtered=True))
    assert codes(plan) == ["unlogged-store"]
    [question] = plan.questions
    assert re.search(r"store seen \(.*test_plan_questions\.py:\d+\) has no changelog", question.text)
    assert "tidegate upgrade --yes" in question.consent


def test_a_store_in_memory_without_a_changelog_is_empty_after_each_start_anyway(log: SqliteLog) -> None:
    store = stores.in_memory("seen", int).without_changelog()
    ran(log, without_changelog(store, filtered=False), ada=[1])
    assert codes(planned(log, without_changelog(store, filtered=True))) == []


def test_an_app_equal_to_a_former_generation_is_asked(log: SqliteLog) -> None:
    ran(log, plain(filtered=True), ada=[1])
    second(log, plain())
    plan = planned(log, plain(filtered=True))
    assert (plan.before, plan.after, codes(plan)) == (2, 3, ["former-generation"])
    assert "tidegate rollback" in plan.questions[0].consent
    assert planned(log, plain()).state == "nothing"


def second(log: SqliteLog, app: App) -> None:
    """Make the app the second generation, as an upgrade will."""
    known = find_manifest(log, "shop")
    assert known is not None
    topology = identified(app.build(), known)
    code = Code()
    counts = {**known.sources, **known.sinks}
    made = continued(
        make_manifest(topology, counts, 2, known.internal_partitions, starts=known.starts, code=code), known
    )
    with closing(log.writer("second")) as writer:
        append_manifest(writer, made, 0, code.entry())
        write_control(writer, "shop", {ACTIVE: Active(2)}, 0)
        writer.commit()


def edited(log: SqliteLog, **fields: Any) -> None:
    """Change fields of the manifest."""
    known = find_manifest(log, "shop")
    assert known is not None
    with closing(log.writer("editor")) as writer:
        append_manifest(writer, msgspec.structs.replace(known, **fields), 0)
        writer.commit()


def test_another_python_is_asked_although_nothing_else_changed(log: SqliteLog) -> None:
    ran(log, plain(), ada=[1])
    edited(log, python="3.9")
    plan = planned(log, plain())
    assert (codes(plan), plan.state, only(plan).action) == (["python-changed"], "ask", "keep")


def test_fingerprints_of_another_algorithm_are_asked(log: SqliteLog) -> None:
    ran(log, plain(), ada=[1])
    edited(log, algorithm=999)
    assert codes(planned(log, plain())) == ["algorithm-changed"]


def packing(value: int) -> int:
    """Mentions a package, and reads what no fingerprint sees. Tests that act on `os` count for it too."""
    return len(msgspec.json.encode(value)) + int(os.environ.get("SHOP", "0")) + int(time.time() * 0)


def packed() -> App:
    app = App("shop")
    app.stream(ORDERS).map(packing).sum("sums", int).to(TOTALS)
    return app


def test_another_version_of_a_package_is_asked(log: SqliteLog) -> None:
    ran(log, packed(), ada=[1])
    assert planned(log, packed()).state == "nothing"
    manifest = find_manifest(log, "shop")
    assert manifest is not None
    code = recorded_code(log, manifest)
    older = {
        digest: msgspec.structs.replace(one, packages=dict.fromkeys(one.packages, "0.1"))
        for digest, one in code.fingerprints.items()
    }
    with closing(log.writer("editor")) as writer:
        append_manifest(writer, manifest, 0, msgspec.structs.replace(code, fingerprints=older))
        writer.commit()
    plan = planned(log, packed())
    assert (set(codes(plan)), plan.state) == ({"package-changed"}, "ask")
    asked = [question.text for question in plan.questions if "package msgspec " in question.text]
    assert len(asked) == 1
    assert f"package msgspec is {msgspec.__version__}, was 0.1" in asked[0]


def test_what_cannot_be_seen_is_named_with_its_line_and_what_to_do(log: SqliteLog) -> None:
    ran(log, packed(), ada=[1])
    lines, start = inspect.getsourcelines(packing)
    places = {f"test_plan_questions.py:{start + at}" for at in range(len(lines))}
    notes = [note for note in planned(log, packed()).notes if Path(note.location).name in places]
    assert {note.text.partition(":")[0] for note in notes} == {
        "os.environ reads the environment",
        "time.time reads the clock",
    }
    assert all("tidegate.logic(version=" in note.hint for note in notes)


def test_every_question_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "upgrades.md").read_text()
    source = (Path(tidegate.__path__[0]) / "upgrade" / "questions.py").read_text()
    found = set(re.findall(r'Question\(\s*"([a-z-]+)"', source))
    assert len(found) > 8
    assert {code for code in found if f"`{code}`" not in page} == set()
