"""The first example, run as it stands."""

from __future__ import annotations

from examples.wordcount.wordcount import COUNTS, LINES, app, words

from tidegate.testing import Commit, Driver


def test_the_function_of_the_example_can_be_called_by_itself() -> None:
    assert words("The sea, the SEA!") == ["the", "sea", "the", "sea"]


def test_words_are_counted_over_all_lines_and_partitions() -> None:
    with Driver(app, partitions=3) as d:
        d.send(LINES, "a", "hello world hello", "the world is big")
        d.send(LINES, "b", "hello again")
        d.run()
        assert d.rows(COUNTS) == {"hello": 3, "world": 2, "the": 1, "is": 1, "big": 1, "again": 1}


def test_each_change_of_a_count_is_written_in_order() -> None:
    with Driver(app, partitions=3) as d:
        d.send(LINES, "a", "ho ho ho", "hey")
        d.run()
        assert d.by_key(COUNTS) == {"ho": [1, 2, 3], "hey": [1]}


def test_counts_go_on_over_a_crash_and_on_another_host() -> None:
    with Driver(app, partitions=3, slots=2) as d:
        d.send(LINES, "a", "one two two")
        d.crash(at=Commit.LOG_COMMITTED)
        d.run()
        d.move()
        d.send(LINES, "b", "two")
        d.run()
        assert d.rows(COUNTS) == {"one": 1, "two": 3}
        assert d.store("counts").contents == d.store("counts").changelog == d.rows(COUNTS)


def test_its_own_topics_have_the_names_that_the_example_lists() -> None:
    with Driver(app) as d:
        d.run()
        owned = {"wordcount-by-word-repartition", "wordcount-counts-changelog"}
        assert owned < set(d.log.names())
