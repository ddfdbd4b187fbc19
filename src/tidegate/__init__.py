"""tidegate: stateful stream processing in Python on Apache Spark."""

from __future__ import annotations

from tidegate.connect import connect
from tidegate.errors import (
    ConfigError,
    FencedError,
    LogError,
    SerdeError,
    StateError,
    TidegateError,
    TopologyError,
    UpgradeError,
    UserCodeError,
)
from tidegate.record import Record
from tidegate.serde import Json, MsgPack, Serde
from tidegate.topics import TableTopic, Topic

__all__ = [
    "ConfigError",
    "FencedError",
    "Json",
    "LogError",
    "MsgPack",
    "Record",
    "Serde",
    "SerdeError",
    "StateError",
    "TableTopic",
    "TidegateError",
    "Topic",
    "TopologyError",
    "UpgradeError",
    "UserCodeError",
    "connect",
]
