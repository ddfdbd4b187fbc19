"""Serdes: convert keys and values to bytes and back. The layers below work on bytes only."""

from __future__ import annotations

from tidegate.serde.avro import Avro
from tidegate.serde.infer import serde_for
from tidegate.serde.java import JavaInteger, JavaLong
from tidegate.serde.json_schema import JsonSchema
from tidegate.serde.protocol import Serde
from tidegate.serde.structured import Json, MsgPack

__all__ = ["Avro", "JavaInteger", "JavaLong", "Json", "JsonSchema", "MsgPack", "Serde", "serde_for"]
