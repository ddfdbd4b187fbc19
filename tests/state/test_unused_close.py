"""Rows that nobody uses again on this host are not written to disk if the log has all of them."""

from __future__ import annotations

from tests.state.bench import SELDOM, Bench

from tidegate import stores

COUNTS = stores.key_value("counts", int)
LOCAL = stores.key_value("local", int).without_changelog()


def test_unused_rows_are_not_written_and_come_back_from_the_log(bench: Bench) -> None:
    task = bench.start(COUNTS, limits=SELDOM)
    task.put(COUNTS, "ada", 1)
    task.commit()
    task.state.close(used_again=False)
    again = bench.start(COUNTS, limits=SELDOM)
    assert again.listener.restored("counts") == 1
    assert again.rows(COUNTS) == {"ada": 1}
    again.close()
    third = bench.start(COUNTS, limits=SELDOM)
    assert third.listener.restored("counts") == 0
    assert third.rows(COUNTS) == {"ada": 1}


def test_rows_that_the_log_does_not_have_are_written_all_the_same(bench: Bench) -> None:
    task = bench.start(COUNTS, LOCAL, limits=SELDOM)
    task.put(COUNTS, "ada", 1)
    task.put(LOCAL, "bob", 2)
    task.commit()
    task.state.close(used_again=False)
    again = bench.start(COUNTS, LOCAL, limits=SELDOM)
    assert again.rows(LOCAL) == {"bob": 2}
    assert again.listener.restored("counts") == 0
