"""`make soak` runs every test that repeats more in it."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_each_file_with_repetitions_marks_its_tests_for_the_soak() -> None:
    """In a `conftest.py` they belong to the fixture `kills`, whose tests are marked."""
    users = [file for file in TESTS.rglob("test_*.py") if "from tests.repetitions import" in file.read_text()]
    assert len(users) > 5
    assert [str(file.relative_to(TESTS)) for file in users if "mark.soak" not in file.read_text()] == []
