"""The broker that the other tests stand on: does it behave as a real one, and does nothing of it remain?"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kafka.clients import consume, create, produce

from tidegate.errors import LogError
from tidegate.testing.broker import KafkaCluster


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.1)
    return holds()


def test_a_record_goes_in_and_comes_out(kafka: KafkaCluster) -> None:
    create(kafka.bootstrap, "broker-test-in-and-out", 2)
    produce(kafka.bootstrap, "broker-test-in-and-out", [(b"k", b"v")])
    assert consume(kafka.bootstrap, "broker-test-in-and-out") == [(b"k", b"v")]
    assert kafka.url == f"kafka://{kafka.bootstrap}"


def test_it_listens_on_loopback_only(kafka: KafkaCluster) -> None:
    wildcard = {"00000000", "0" * 32}
    for pid in kafka.pids:
        sockets = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
        rows = [
            row
            for name in ("tcp", "tcp6")
            for row in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()
        ]
        listening = [row.split() for row in rows if " 0A " in row]
        own = [row[1].split(":")[0] for row in listening if f"socket:[{row[9]}]" in sockets]
        assert own
        assert not wildcard & set(own)


def test_what_was_written_outlives_a_kill_a_stop_and_a_freeze(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path) as kafka:
        create(kafka.bootstrap, "kept")
        broker, first = kafka.brokers[0], kafka.pids
        for number, end in enumerate((broker.kill, broker.stop, broker.freeze)):
            produce(kafka.bootstrap, "kept", [(b"k", b"%d" % number)])
            end()
            broker.wake()
            broker.start()
        assert consume(kafka.bootstrap, "kept") == [(b"k", b"0"), (b"k", b"1"), (b"k", b"2")]
        last = kafka.pids
    assert first != last
    assert all(gone(pid) for pid in first + last)


def test_brokers_die_with_the_process_that_started_them(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from tidegate.testing.broker import KafkaCluster\n"
        "print(*KafkaCluster(Path(sys.argv[1])).pids, flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert not gone(pid)
        parent.send_signal(signal.SIGKILL)
    assert within(10, lambda: gone(pid))


def test_a_broker_that_does_not_start_reports_why(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"(?s)could not format.*default.replication.factor") as caught:
        KafkaCluster(tmp_path, config={"default.replication.factor": "many"})
    assert caught.value.code == "broker-down"
