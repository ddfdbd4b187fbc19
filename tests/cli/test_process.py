"""The command as a process of its own: pipes, signals, exit codes, encodings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate import Topic, connect
from tidegate.log.topic import TopicSpec

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-c", "from tidegate.cli.main import main; main()"]
WAIT = 180
ORDERS = Topic("orders", str, partitions=1)


def start(folder: Path, *arguments: str, **environ: str) -> subprocess.Popen[bytes]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env={**clean, **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_hear_ctrl_c,  # noqa: PLW1509 - nothing but a signal is set
    )


def _hear_ctrl_c() -> None:
    """A suite that was started in the background of a shell ignores SIGINT, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(folder: Path, *arguments: str, stdin: bytes = b"", **environ: str) -> tuple[int, bytes, bytes]:
    process = start(folder, *arguments, **environ)
    out, err = process.communicate(stdin, timeout=WAIT)
    return process.returncode, out, err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a log and a topic, made without a process: each takes a second of CPU to start."""
    with connect(folder=tmp_path) as log:
        log.log.create(TopicSpec(ORDERS.name, 1))
    return tmp_path


def send(folder: Path, key: str, *values: str) -> None:
    with connect(folder=folder) as log:
        log.send(ORDERS, key, *values)


def test_exit_codes_and_streams(folder: Path) -> None:
    assert run(folder, "topics", "create", "others", "--partitions", "1")[::2] == (0, b"")
    assert run(folder, "topics", "list")[0] == 0
    code, out, err = run(folder, "topics", "describe", "nothing")
    assert (code, out) == (1, b"")
    assert err == b"[no-such-topic] there is no topic 'nothing'  Do: tidegate topics create nothing\n"
    code, out, err = run(folder, "topics", "describe", "nothing", "--json")
    assert (code, err, json.loads(out)["error"]["retryable"]) == (1, b"", False)
    code, out, err = run(folder, "topics", "describe")
    assert (code, out) == (2, b"")


def test_stdin_goes_to_the_log_and_comes_back(folder: Path) -> None:
    lines = b"".join(b"value %d\n" % number for number in range(5_000))
    code, out, err = run(folder, "topics", "send", "orders", "--json", stdin=lines)
    assert (code, err, json.loads(out)) == (0, b"", {"topic": "orders", "sent": 5000, "offsets": {"0": 4999}})
    _, out, _ = run(folder, "topics", "tail", "orders", "--from-start", "--timeout", "0", "--json")
    assert b"".join(json.loads(line)["value"].encode() + b"\n" for line in out.splitlines()) == lines


def test_a_slow_pipe_is_sent_as_it_comes_and_tail_shows_it_live(folder: Path) -> None:
    tail = start(folder, "topics", "tail", "orders", "--from-start", "--limit", "2", "--json")
    send = start(folder, "topics", "send", "orders")
    assert tail.stdout is not None
    assert send.stdin is not None
    for value in (b"first", b"second"):
        send.stdin.write(value + b"\n")
        send.stdin.flush()
        assert json.loads(tail.stdout.readline())["value"] == value.decode()
    tail.communicate(timeout=WAIT)
    send.communicate(timeout=WAIT)
    assert (tail.returncode, send.returncode) == (0, 0)


def test_a_reader_that_goes_away_ends_it_quietly(folder: Path) -> None:
    send(folder, "k", *["x"] * 50_000)
    with start(folder, "topics", "tail", "orders", "--from-start") as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        tail.stdout.readline()
        tail.stdout.close()
        assert (tail.wait(WAIT), tail.stderr.read()) == (141, b"")
    with start(folder, "topics", "list") as table:
        assert table.stdout is not None
        assert table.stderr is not None
        table.stdout.close()
        assert (table.wait(WAIT), table.stderr.read()) == (141, b"")


def test_ctrl_c_ends_it_quietly(folder: Path) -> None:
    send(folder, "k", "v")
    tail = start(folder, "topics", "tail", "orders", "--from-start")
    assert tail.stdout is not None
    tail.stdout.readline()
    tail.send_signal(signal.SIGINT)
    try:
        out, err = tail.communicate(timeout=WAIT)
    finally:
        tail.kill()
    assert (tail.returncode, out, err) == (130, b"", b"")


def test_a_terminal_without_unicode_still_gets_everything(folder: Path) -> None:
    send(folder, "k", "漢 Zoë")
    tail = ("topics", "tail", "orders", "--from-start", "--timeout", "0")
    code, out, err = run(folder, *tail, PYTHONIOENCODING="latin-1")
    assert (code, err, out[-11:]) == (0, b"", b"\\u6f22 Zo\xeb\n")
    code, out, err = run(folder, *tail, "--json", PYTHONIOENCODING="latin-1")
    assert (code, err, json.loads(out)["value"]) == (0, b"", "漢 Zoë")


def test_arguments_that_are_no_text_are_refused_and_not_mangled(folder: Path) -> None:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("TIDEGATE_")}
    send = [*map(os.fsencode, COMMAND), b"topics", b"send", b"orders", b"k", b"\xff"]
    done = subprocess.run(send, cwd=folder, env=clean, capture_output=True, timeout=WAIT, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"[unencodable] VALUE: ")
    done = subprocess.run([*send, b"--type", b"bytes"], cwd=folder, env=clean, timeout=WAIT, check=False)
    assert done.returncode == 0
    _, out, _ = run(folder, "topics", "tail", "orders", "--from-start", "--timeout", "0", "--json")
    assert json.loads(out)["value"] == {"base64": "/w=="}
