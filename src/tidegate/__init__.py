"""tidegate: stateful stream processing in Python on Apache Spark."""

from __future__ import annotations

from tidegate import stores
from tidegate.app import App
from tidegate.connect import connect
from tidegate.dsl.processor import Context
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
from tidegate.settings import Secret, Settings, operational
from tidegate.topics import TableTopic, Topic

__all__ = [
    "App",
    "ConfigError",
    "Context",
    "FencedError",
    "Json",
    "LogError",
    "MsgPack",
    "Record",
    "Secret",
    "Serde",
    "SerdeError",
    "Settings",
    "StateError",
    "TableTopic",
    "TidegateError",
    "Topic",
    "TopologyError",
    "UpgradeError",
    "UserCodeError",
    "connect",
    "operational",
    "stores",
]
