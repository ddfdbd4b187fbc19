"""One suite for every log: what passes it can carry tidegate.

Subclass `LogConformance` in a test module and give it a fixture `bench` that yields a `LogBench`; pytest
collects the rest. Logs differ in how they are opened and how compaction is brought about, and in nothing
that these tests can see.
"""

from __future__ import annotations

from tidegate.testing.conformance.bench import LogBench
from tidegate.testing.conformance.reads import ReadConformance
from tidegate.testing.conformance.records import RecordConformance
from tidegate.testing.conformance.topics import TopicConformance
from tidegate.testing.conformance.transactions import TransactionConformance

__all__ = ["LogBench", "LogConformance"]


class LogConformance(TopicConformance, RecordConformance, TransactionConformance, ReadConformance):
    """Everything."""
