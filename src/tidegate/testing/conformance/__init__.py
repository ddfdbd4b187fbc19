"""One suite for every log: a log that passes it can be used by tidegate.

Subclass `LogConformance` in a test module and give it a fixture `bench` that yields a `LogBench`; pytest
collects the rest. Logs differ only in how they are opened and how compaction is triggered.
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
