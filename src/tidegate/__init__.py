"""tidegate: stateful stream processing in Python on Apache Spark.

Declare an `App` over topics, run it with `tidegate run` or `app.start(spark)`, and test it with
`tidegate.testing.Driver`. The documents begin with docs/index.md in the repository.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tidegate import stores
from tidegate.app import App
from tidegate.connect.connect import connect
from tidegate.dsl.processor import Context, Processor, TimedProcessor
from tidegate.dsl.stream import Stream
from tidegate.dsl.table import Table
from tidegate.errors import (
    ClientError,
    ConfigError,
    FencedError,
    LogError,
    RegistryError,
    SerdeError,
    StateError,
    TidegateError,
    TopologyError,
    UpgradeError,
    UserCodeError,
)
from tidegate.fingerprint import logic
from tidegate.record import Record
from tidegate.serde import Avro, JavaInteger, JavaLong, Json, JsonSchema, MsgPack, Serde
from tidegate.settings import Secret, Settings, operational
from tidegate.topics import TableTopic, Topic

if TYPE_CHECKING:
    from tidegate.spark.frames import read_store, read_topic
    from tidegate.spark.write import write_topic

__all__ = [
    "App",
    "Avro",
    "ClientError",
    "ConfigError",
    "Context",
    "FencedError",
    "JavaInteger",
    "JavaLong",
    "Json",
    "JsonSchema",
    "LogError",
    "MsgPack",
    "Processor",
    "Record",
    "RegistryError",
    "Secret",
    "Serde",
    "SerdeError",
    "Settings",
    "StateError",
    "Stream",
    "Table",
    "TableTopic",
    "TidegateError",
    "TimedProcessor",
    "Topic",
    "TopologyError",
    "UpgradeError",
    "UserCodeError",
    "connect",
    "logic",
    "operational",
    "read_store",
    "read_topic",
    "stores",
    "write_topic",
]

_WITH_SPARK = {"read_store": "frames", "read_topic": "frames", "write_topic": "write"}


def __getattr__(name: str) -> Any:
    """Import names that need Spark at their first use."""
    if name in _WITH_SPARK:
        return getattr(import_module(f"tidegate.spark.{_WITH_SPARK[name]}"), name)
    raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
