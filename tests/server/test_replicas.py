"""Replicas: what they hold, how they end, and what they do with topics that change under them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.gate.app import EVENTS, gated
from tests.gate.working import Working
from tests.server.conftest import Client
from tests.server.test_gates import APPLIED, got, posted
from tests.waiting import HANG_SECONDS, wait_for

from tidegate import App, Topic
from tidegate.clock import SystemClock
from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.errors import ConfigError, LogError, StateError
from tidegate.log.records import Row, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.runtime.driver.prepare import prepare
from tidegate.server import replicas
from tidegate.server.follower_pool import PoolSize
from tidegate.server.live_replica import LiveReplica
from tidegate.server.position import from_text, to_text
from tidegate.server.replicas import Replicas
from tidegate.server.serve import prepared
from tidegate.server.settings import server_settings
from tidegate.state import replica
from tidegate.types import TopicPartition

TABLE = TopicPartition("table", 0)
KIND = "key-value"


@pytest.fixture
def held(log: SqliteLog, tmp_path: Path) -> Iterator[Replicas]:
    log.create(TopicSpec("table", 2, {"cleanup.policy": "compact"}))
    with closing(Replicas(log, tmp_path / "home")) as made:
        yield made


def put(log: SqliteLog, **rows: str) -> None:
    log.append(TABLE, to_batch([Row(key.encode(), value.encode(), 1) for key, value in rows.items()]))


def rows(held: Replicas, at_least: int = 0) -> dict[bytes, bytes]:
    with held.replica_of("table", KIND).snapshot({0: at_least}, 10) as snapshot:
        return dict(snapshot.scan(0, None, None))


def test_rows_and_positions_belong_together(held: Replicas, log: SqliteLog) -> None:
    for number in range(1, 30):
        put(log, ada=str(number))
        with held.replica_of("table", KIND).snapshot({0: number}, 10) as snapshot:
            assert snapshot.get(0, b"ada") == str(snapshot.positions[0]).encode()
            assert snapshot.positions[1] == 0


def test_a_partition_that_is_not_there_is_refused_at_once(held: Replicas) -> None:
    began = time.monotonic()
    with (
        pytest.raises(ConfigError, match="bad-position"),
        held.replica_of("table", KIND).snapshot({7: 1}, 10 * HANG_SECONDS),
    ):
        pass
    assert time.monotonic() - began < HANG_SECONDS


def test_the_map_grows_while_others_look(
    held: Replicas, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "FIRST_MAP_BYTES", 1 << 20)  # so that 4 MB make it grow
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            rows(held)

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(40):
        put(log, **{f"k{number}": "v" * 100_000})
    assert len(rows(held, 40)) == 40
    ended.set()
    thread.join()


def test_a_record_that_no_store_wrote_stops_it_with_an_error(
    log: SqliteLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not built again and again, and nothing is left on the disk."""
    monkeypatch.setattr(LiveReplica, "retry_seconds", 0.01)  # a second otherwise
    log.create(TopicSpec("windows", 1, {"cleanup.policy": "compact"}))
    good, bad = Row(b"ada" + bytes(12), b"1", 1), Row(b"short", b"1", 1)
    log.append(TopicPartition("windows", 0), to_batch([good]))
    with closing(Replicas(log, tmp_path / "home")) as held:
        found = held.replica_of("windows", "window")
        with found.snapshot({0: 1}, 10) as snapshot:
            assert len(list(snapshot.scan(0, None, None))) == 1
        log.append(TopicPartition("windows", 0), to_batch([bad]))
        wait_for(lambda: found.trouble is not None)
        wait_for(lambda: found._failures > 3)
        assert found.trouble is not None
        assert found.trouble.code == "bad-changelog"
        with pytest.raises(StateError, match="bad-changelog"), found.snapshot({}, 0.5):
            pass
        assert len(list((tmp_path / "home").glob("*/*/*"))) == 1
        assert held.troubles()


def test_a_topic_that_is_gone_is_forgotten_until_it_is_back(
    held: Replicas, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LiveReplica, "retry_seconds", 0.01)  # a second otherwise
    put(log, ada="1")
    assert rows(held) == {b"ada": b"1"}
    log.delete("table")
    found = held.replica_of("table", KIND)
    wait_for(lambda: found.trouble is not None)
    assert held.troubles() == []
    with pytest.raises(LogError, match="no-such-topic"), found.snapshot({}, 0.2):
        pass
    log.create(TopicSpec("table", 2, {"cleanup.policy": "compact"}))
    put(log, bob="2")

    def again() -> dict[bytes, bytes]:
        try:
            return rows(held)
        except LogError:
            return {}

    wait_for(lambda: again() == {b"bob": b"2"})


def test_the_least_recently_used_replica_is_evicted(log: SqliteLog, tmp_path: Path) -> None:
    with closing(Replicas(log, tmp_path / "home", PoolSize(soft_limit=3, hard_limit=3))) as held:
        for number in range(5):
            log.create(TopicSpec(f"t{number}", 1, {"cleanup.policy": "compact"}))
            with held.replica_of(f"t{number}", KIND).snapshot({}, 10):
                pass
        assert sorted(held._pool.by_name()) == ["t2", "t3", "t4"]
        with held.replica_of("t0", KIND).snapshot({}, 10) as snapshot:
            assert snapshot.positions == {0: 0}


def test_a_watcher_learns_of_the_keys_that_it_watches(held: Replicas, log: SqliteLog) -> None:
    class Watching:
        def __init__(self) -> None:
            self.keys = {b"ada"}
            self.reported: list[list[bytes] | None] = []

        def changed(self, keys: list[bytes] | None) -> None:
            self.reported.append(keys)

    watcher, found = Watching(), held.replica_of("table", KIND)
    rows(held)
    found.watch(watcher)
    put(log, bob="1")
    put(log, ada="2")
    wait_for(lambda: watcher.reported != [])
    assert watcher.reported == [[b"ada"]]
    partition = next(number for number in range(2) if (found.read(number, b"ada") or (None,))[0])
    assert found.read(partition, b"ada") == (b"2", found.position(partition))
    log.delete("table")
    log.create(TopicSpec("table", 2, {"cleanup.policy": "compact"}))
    wait_for(lambda: watcher.reported[-1] is None)  # another topic: any row may have changed


def test_waiting_calls_end_with_the_server_and_new_ones_are_refused(held: Replicas) -> None:
    found = held.replica_of("table", KIND)
    reported: list[object] = []

    def wait() -> None:
        try:
            with found.snapshot({0: 99}, 10 * HANG_SECONDS):
                pass
        except LogError as error:
            reported.append(error.code)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for(lambda: held._waits._value < replicas.WAITING)
    held.end()
    thread.join(HANG_SECONDS)
    assert not thread.is_alive()
    assert reported[0] == "server-ends"
    with pytest.raises(LogError, match="server-ends"):
        held.replica_of("other", KIND)


def test_only_so_many_may_wait(log: SqliteLog, held: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "_waits", threading.Semaphore(1))  # one in place of fifty threads
    found: LiveReplica = held.replica_of("table", KIND)
    with found.snapshot({}, 10):
        pass
    done = threading.Event()
    thread = threading.Thread(target=lambda: found.wait_for(lambda _: done.is_set(), HANG_SECONDS))
    thread.start()
    wait_for(lambda: held._waits._value == 0)
    with pytest.raises(LogError, match="too-many-wait"), found.snapshot({0: 99}, 5):
        pass
    with found.snapshot({}, 5):
        pass
    done.set()
    put(log, ada="1")
    thread.join()


def test_a_long_position_comes_back_as_it_went() -> None:
    many = {
        TopicPartition(f"topic-{topic:03}", number): 10**6 for topic in range(20) for number in range(200)
    }
    assert from_text(to_text(many)) == many


def test_a_server_ends_at_once_while_calls_wait(config: Config, log: SqliteLog) -> None:
    """A replica that is far behind, a pause that no gate applies: both are answered, and nothing hangs."""
    prepare(gated().build(), log, SystemClock(), partitions=2)
    started = threading.Event()
    urls: list[str] = []

    def started_at(url: str) -> None:
        urls.append(url)
        started.set()

    codes: list[int] = []
    with (
        prepared(config, server_settings({"port": 0}, {}), started_at) as server,
        Client(timeout=60) as client,
    ):
        thread = threading.Thread(target=server.run)
        thread.start()
        assert started.wait(HANG_SECONDS)
        position = "gated-counted-changelog:0=999"
        calls = [
            lambda: client.post(f"{urls[0]}/gates/door/keys/ada/pause?wait=applied&seconds=60"),
            lambda: client.get(f"{urls[0]}/stores/counted", params={"at_least": position}),
        ]
        threads = [
            threading.Thread(target=lambda call=call: codes.append(call().status_code)) for call in calls
        ]
        for one in threads:
            one.start()
        waits = server._serving.replicas._waits
        wait_for(lambda: waits._value == replicas.WAITING - len(calls))
        began = time.monotonic()
        server.should_exit = True
        for one in (thread, *threads):
            one.join(HANG_SECONDS)
    assert time.monotonic() - began < 40, "the calls would wait for a minute"
    assert sorted(codes) == [202, 503]


def test_calls_that_wait_do_not_hold_up_the_others(
    client: Client, log: SqliteLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many clients ask for what never comes, and leave."""
    prepare(gated().build(), log, SystemClock(), partitions=2)
    got(client, "/stores/counted")
    place = urlsplit(str(client.base_url))
    request = (
        b"GET /stores/counted?at_least=gated-counted-changelog:0=999 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    with ExitStack() as stack:
        for _ in range(120):
            wire = stack.enter_context(closing(socket.create_connection((place.hostname, place.port), 10)))
            wire.sendall(request)
    began = time.monotonic()
    assert got(client, "/health/live") == {"live": True}
    assert got(client, "/topics")["topics"]
    assert time.monotonic() - began < 8, "those that wait do so for ten seconds"


@pytest.mark.parametrize(
    "row",
    [Row(b"\xff", b"x", 1), Row(b"manifest/1", b"{", 1), Row(b"manifest/1", b'{"app": 1}', 1)],
    ids=["no text", "no JSON", "no manifest"],
)
def test_a_foreign_topic_with_such_a_name_does_no_harm(client: Client, log: SqliteLog, row: Row) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    log.create(TopicSpec("motor-control", 1, {"cleanup.policy": "compact"}))
    log.create(TopicSpec("remote-control", 3))
    log.append(TopicPartition("motor-control", 0), to_batch([row]))
    assert [one["gate"] for one in got(client, "/gates")["gates"]] == ["door"]
    assert got(client, "/topology")["apps"][0]["app"] == "gated"
    assert client.get("/metrics").status_code == 200
    assert got(client, "/tasks")["apps"]


def test_unreadable_rows_of_a_gate_are_reported_by_name(
    client: Client, log: SqliteLog, tmp_path: Path
) -> None:
    working = Working(log, tmp_path)
    posted(client, "/gates/door/keys/ada/pause", **APPLIED)
    working.close()
    for number in range(2):
        log.append(TopicPartition("gated-door-audit", number), to_batch([Row(b"ada", b"?", 1)]))
    wait_for(lambda: got(client, "/gates/door/keys/ada")["history"] != [])
    assert [one["state"] for one in got(client, "/gates/door/keys/ada")["history"]] == ["PAUSED"]
    for number in range(2):
        log.append(TopicPartition("gated-door-status-changelog", number), to_batch([Row(b"bad", b"\xc1", 1)]))
    wait_for(lambda: client.get("/gates").status_code == 500)
    assert got(client, "/gates", code=500)["error"]["code"] == "bad-changelog"
    assert got(client, "/gates/door/keys/ada")["status"]["state"] == "PAUSED"


def test_an_idempotency_key_is_of_one_key(client: Client, log: SqliteLog) -> None:
    """What is typed in another way is another one."""
    app = App("numbered")
    app.stream(Topic("numbers", int, key=int)).gate("door").to(Topic("passed", int, key=int))
    prepare(app.build(), log, SystemClock(), partitions=2)
    once = {"Idempotency-Key": "one"}
    first = client.post("/gates/door/keys/42/pause?key_type=int", headers=once)
    assert (first.status_code, first.json()["key"]) == (200, 42)
    second = client.post("/gates/door/keys/42/pause", headers=once)
    assert (second.status_code, second.json()["error"]["code"]) == (422, "idempotency-mismatch")


def test_the_last_records_are_the_last(client: Client, log: SqliteLog, connection: Connection) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    log.append(
        TopicPartition("events", 0),
        to_batch([Row(b"k", EVENTS.encode_value(value), 1_000 + value) for value in range(300)]),
    )
    log.append(TopicPartition("events", 1), to_batch([Row(b"k", EVENTS.encode_value(999), 1)]))
    last = got(client, "/topics/events/records", limit="50", type="int")
    assert [one["value"] for one in last["records"]] == list(range(250, 300))
    assert got(client, "/topics/events/records", at=last["next"])["records"] == []
    [newest] = got(client, "/topics/events/records", limit="1", type="int")["records"]
    assert newest["value"] == 299


def test_a_page_of_large_records_ends_early(client: Client, log: SqliteLog) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    large = to_batch([Row(b"k", b"x" * (900 << 10), number) for number in range(20)])
    for number in range(20):
        log.append(TopicPartition("events", 0), large.slice(number, 1))
    seen: list[int] = []
    at = "events:0=0,1=0"
    while len(seen) < 20:
        answer = client.get("/topics/events/records", params={"at": at})
        assert len(answer.content) < 16 << 20
        seen += [one["offset"] for one in answer.json()["records"]]
        at = answer.json()["next"]
    assert seen == list(range(20))
