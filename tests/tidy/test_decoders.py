"""msgspec looks at a Struct when it first decodes it, and crashes the process (0.22) if two threads do so at
the same time. So a decoder of a Struct is made while its module is imported."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "tidegate"
RACE = """
import sys, threading
from tidegate.log.positions import Position, TaskId
from tidegate.runtime.topics.control import Control, Plan, SlotPlan
from tidegate.state.environment import Metadata, _metadata, _sealed
import msgspec

sys.setswitchinterval(1e-6)
task = TaskId("c", 1, 0, 0)
position = Position(sources={"a": {0: 1}}, stream_times={}, changelogs={}, progress={})
sealed = _sealed(msgspec.json.encode(Metadata(app="a", task=task, log="l", position=position)))
control = Control({"plan/active": msgspec.json.encode(Plan(1, [SlotPlan(0, "w", [task])]))})
barrier = threading.Barrier(6)

def work():
    barrier.wait()
    _metadata(sealed)
    control.plan("active")

threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_nothing_is_decoded_by_a_type_that_was_not_looked_at_before() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{call.lineno}: make a Decoder of {ast.unparse(keyword.value)} at import"
        for path in sorted(SOURCE.rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "decode"
        for keyword in call.keywords
        if keyword.arg == "type" and isinstance(keyword.value, ast.Name)
    ]
    assert wrong == []


@pytest.mark.slow
def test_threads_may_be_the_first_to_decode() -> None:
    """Without the decoders about half of these processes crashed."""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
