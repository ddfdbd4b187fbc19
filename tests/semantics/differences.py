"""Where tidegate differs from Kafka Streams on purpose: what it does instead, step by step, and why.

A reason is a heading of docs/kafka-streams.md. A scenario that is not listed here gives the same records.
"""

from __future__ import annotations

from tests.semantics.play import Sent

NULL_KEY = "Null keys are refused by name"
NEVER_WAS = "No tombstone for a row that never was"
EMPTY = "A group without rows is deleted by `count`"
ONCE = "A self join sends each change once"

DIFFERENCES: dict[str, tuple[str, list[Sent]]] = {
    "repartition: a null key": (NULL_KEY, [[["error", "null-key"]]]),
    "count: a null key": (NULL_KEY, [[["error", "null-key"]]]),
    "group_by: to a null key": (NULL_KEY, [[["b", 1, 10]], [["error", "null-key"]]]),
    "table: a null key": (NULL_KEY, [[["error", "null-key"]]]),
    "stream-table join: a null key": (NULL_KEY, [[], [["error", "null-key"]]]),
    "aggregate: to nothing where no row is": (NEVER_WAS, [[], [["a", "1", 20]]]),
    "count, filter: what no longer passes is deleted": (
        NEVER_WAS,
        [[], [["a", 2, 20]], [["a", None, 30]], [["a", 4, 40]]],
    ),
    "table: a tombstone for a row that never was": (NEVER_WAS, [[], [["a", "1", 20]]]),
    "table map: a tombstone for a row that never was": (NEVER_WAS, [[]]),
    "table join: a tombstone for a row that never was": (NEVER_WAS, [[], [], [["a", "1&A", 30]]]),
    "aggregate, group_by: the old row is taken back": (
        EMPTY,
        [
            [["b", 1, 10]],
            [["b", 2, 20]],
            [["b", 1, 30], ["c", 1, 30]],
            [["b", None, 40], ["c", 2, 40]],
            [["c", 1, 40], ["b", 1, 35]],
        ],
    ),
    "table join, group_by: groups that were left": (
        EMPTY,
        [[], [["b", 1, 20]], [], [["b", 2, 40]], [["b", 1, 50], ["c", 1, 50]], [["b", None, 60]]],
    ),
    "table group_by: the last row of a group goes": (
        EMPTY,
        [[["b", 1, 10]], [["b", None, 20]], [["b", 1, 30]]],
    ),
    "table group_by: older records do not set time back": (
        EMPTY,
        [[["b", 1, 50]], [["b", 2, 50]], [["b", 1, 50], ["c", 1, 30]], [["b", None, 50], ["c", 2, 30]]],
    ),
    "table group_by: to a null key": (
        EMPTY,
        [[["b", 1, 10]], [["b", 2, 20]], [["b", 1, 30]], [], [["c", 1, 50]], [["b", None, 60]]],
    ),
    "table group_by: from a null key": (EMPTY, [[], [["b", 1, 20]], [["b", None, 30]]]),
    "table filter, group_by: a row that no longer passes": (
        EMPTY,
        [[["b", 1, 10]], [["b", 2, 20]], [["b", 1, 30]], [["b", None, 40]]],
    ),
    "table self join: a table with itself": (
        ONCE,
        [[["a", "1&1", 10]], [["a", "2&2", 5]], [["a", None, 30]]],
    ),
    "table self join: with a filter of itself": (
        ONCE,
        [[["a", "1&1", 10]], [["a", "x&null", 20]], [["a", "2&2", 30]], [["a", None, 40]]],
    ),
    "table self join, group_by: groups that were left": (
        ONCE,
        [[["b", 1, 10]], [["b", 2, 20]], [["b", 1, 30], ["c", 1, 30]], [["b", None, 40]]],
    ),
}
