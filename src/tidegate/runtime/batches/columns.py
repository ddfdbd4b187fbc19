"""Records of a batch as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from tidegate.serde import Serde
from tidegate.serde.columns import encode_all, encode_texts
from tidegate.serde.plain import PLAIN

Values: TypeAlias = "Sequence[Any] | pa.Array[Any]"
"""Python values, or 64-bit numbers as an Arrow array."""


class Undecoded(Sequence[Any]):
    """Immutable values, or keys, of which each can be decoded, and none is null. They are decoded when a step
    uses one: a count does not."""

    def __init__(self, read: pa.Array[Any], serde: Serde[Any]) -> None:
        self._read = read
        self._serde = serde
        self._values: list[Any] | None = None

    def decoded(self) -> list[Any]:
        if self._values is None:
            self._values = self._serde.decode_many(self._read.to_pylist())
        return self._values

    def __len__(self) -> int:
        return len(self._read)

    def __getitem__(self, index: Any) -> Any:
        return self.decoded()[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.decoded())


@dataclass(frozen=True, slots=True)
class Keys:
    """The distinct keys, and for each record the index of its key."""

    distinct: Sequence[Any]
    numbers: pa.Array[Any]
    read: pa.Array[Any] | None = None
    """The bytes of the distinct keys as they were read, if they were."""
    serde: Serde[Any] | None = None
    """The serde that these bytes were read with."""

    def take(self, rows: pa.Array[Any]) -> Keys:
        return replace(self, numbers=self.numbers.take(rows))

    def has_null(self) -> bool:
        return None in self.distinct if self.read is None else bool(self.read.null_count)

    def as_read(self, serde: Serde[Any] | None) -> pa.Array[Any] | None:
        """Return the bytes of the distinct keys as they were read, if this serde writes the same ones: plain
        values have one encoding."""
        return self.read if serde is self.serde and serde in PLAIN.values() else None

    def column(self, serde: Serde[Any] | None, encode: Callable[[Any], bytes | None]) -> pa.Array[Any]:
        """Return the bytes of the distinct keys."""
        known = self.as_read(serde)
        if known is None and serde is PLAIN[str]:
            known = encode_texts(self.distinct)
        return encode_all(self.distinct, encode) if known is None else known

    def numbers_by(self, column: pa.Array[Any]) -> pa.Array[Any]:
        """Return for each record the number of its key, where those with equal bytes in the column are one
        key: JSON that was read may have had spaces in it. None of the bytes is null."""
        if column is self.read:
            return self.numbers
        encoded: Any = column.dictionary_encode()
        if len(encoded.dictionary) == len(column):
            return self.numbers
        merged: pa.Array[Any] = encoded.indices.take(self.numbers)
        return merged


class Changes:
    """Changes of a table's rows."""

    def __init__(self, old: Values, new: Values) -> None:
        self.old, self.new = old, new

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return zip(_listed(self.old), _listed(self.new), strict=True)


@dataclass(frozen=True, slots=True)
class Columns:
    """Records as columns."""

    keys: Keys
    values: Values | Changes
    timestamps: pa.Array[Any]
    rows: pa.Array[Any] | None = None
    """The index of each record in its batch; None if no record is missing."""
    no_nulls: bool = False
    """Whether it is known that no value is None."""

    def __len__(self) -> int:
        return len(self.timestamps)

    def listed(self) -> Sequence[Any]:
        """Return the values as Python objects."""
        return list(self.values) if isinstance(self.values, Changes) else _listed(self.values)

    def with_values(self, values: Values | Changes) -> Columns:
        """Return the records with new values."""
        return replace(self, values=values, no_nulls=False)

    def select(self, indices: pa.Array[Any], values: Values) -> Columns:
        """Return the records of these indices. `values` are theirs, unchanged."""
        return replace(self.take(indices, values), no_nulls=self.no_nulls)

    def take(self, indices: Sequence[int] | pa.Array[Any], values: Values | Changes) -> Columns:
        """Return the records of these indices, with new values."""
        at = indices if isinstance(indices, pa.Array) else pa.array(indices, pa.int32())
        return Columns(
            self.keys.take(at),
            values,
            self.timestamps.take(at),
            at if self.rows is None else self.rows.take(at),
        )


def _listed(values: Values) -> Sequence[Any]:
    if isinstance(values, Undecoded):
        return values.decoded()
    listed: Sequence[Any] = values.to_pylist() if isinstance(values, pa.Array) else values
    return listed
