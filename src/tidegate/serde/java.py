"""Whole numbers as Kafka's Java clients write them: big endian, two's complement.

    JavaLong      8 bytes, what LongSerializer and Serdes.Long() write
    JavaInteger   4 bytes, what IntegerSerializer and Serdes.Integer() write

Plain `int` flips the sign bit so that its bytes sort. The bytes of a key choose its partition, so a topic
with `int` keys is not co-partitioned with one that a Java program writes: use these to share keys or values
with it. The bytes of negative numbers sort after those of positive ones, also in ranges over a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tidegate.serde.plain import IntSerde
from tidegate.serde.protocol import undecodable, unencodable, wrong_type


class JavaLong(IntSerde):
    """A signed 64-bit number, as `Serdes.Long()`. A bool is refused although Python calls it an int."""

    name = "java-long"
    form = "int64"
    size: ClassVar[int] = 8

    def encode(self, value: int) -> bytes:
        if type(value) is not int and (isinstance(value, bool) or not isinstance(value, int)):
            raise wrong_type(self.name, value)
        try:
            return value.to_bytes(self.size, "big", signed=True)
        except OverflowError:
            why = f"it does not fit into {8 * self.size} bits"
            raise unencodable(self.name, why, "use str, or Json[int]() for larger numbers") from None

    def decode(self, data: bytes) -> int:
        if len(data) != self.size:
            raise undecodable(self.name, data, f"a number of this kind has {self.size}")
        return int.from_bytes(data, "big", signed=True)

    def encode_many(self, values: Sequence[int]) -> list[bytes]:
        return [self.encode(value) for value in values]

    def decode_many(self, data: Sequence[bytes]) -> list[int]:
        return [self.decode(one) for one in data]


class JavaInteger(JavaLong):
    """A signed 32-bit number, as `Serdes.Integer()`."""

    name = "java-int"
    form = "int32"
    size = 4


JAVA = (JavaLong(), JavaInteger())
