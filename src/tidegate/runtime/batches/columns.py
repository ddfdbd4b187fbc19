"""Records of a batch as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

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


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a table's rows."""

    old: Values
    new: Values

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return zip(_listed(self.old), _listed(self.new), strict=True)


@dataclass(frozen=True, slots=True)
class Columns:
    """Records as columns. `rows` is the index of each record in its batch; None if no record is missing."""

    keys: Keys
    values: Values | Changes
    timestamps: pa.Array[Any]
    rows: pa.Array[Any] | None = None

    def __len__(self) -> int:
        return len(self.timestamps)

    def listed(self) -> Sequence[Any]:
        """Return the values as Python objects."""
        return list(self.values) if isinstance(self.values, Changes) else _listed(self.values)

    def with_values(self, values: Values | Changes) -> Columns:
        return replace(self, values=values)

    def take(self, indices: Sequence[int] | pa.Array[Any], values: Values | Changes) -> Columns:
        """Return the records of these indices, with new values."""
        at = indices if isinstance(indices, pa.Array) else pa.array(indices, pa.int32())
        return Columns(
            self.keys.take(at),
            values,
            self.timestamps.take(at),
            at if self.rows is None else self.rows.take(at),
        )


@dataclass(frozen=True, slots=True)
class Groups:
    """The records of a batch by key: for each record its group and its index in it, both from 0; for each
    group its size and its last record."""

    sizes: pa.Array[Any]
    last: pa.Array[Any]
    group: pa.Array[Any]
    index: pa.Array[Any]
    order: pa.Array[Any]
    """The records of the first group, then those of the second, and so on."""
    back: pa.Array[Any]
    """For each record its index in `order`."""


def grouped(numbers: pa.Array[Any]) -> Groups:
    """Group records by their numbers, which start at 0 without gaps. The sort is stable: a group keeps its
    order."""
    order = pc.sort_indices(numbers).cast(pa.int64())
    runs: Any = pc.run_end_encode(numbers.take(order))
    ends = runs.run_ends
    starts = pa.concat_arrays([pa.array([0], ends.type), ends.slice(0, len(ends) - 1)])
    back = pc.inverse_permutation(order)
    group = _repeated(ends, pa.arange(0, len(ends)))
    index = pc.subtract(pa.arange(0, len(numbers)), _repeated(ends, starts).cast(pa.int64()))
    return Groups(
        pc.subtract(ends, starts),
        order.take(pc.subtract(ends, pa.scalar(1, ends.type))),
        group.take(back),
        index.take(back),
        order,
        back,
    )


def _repeated(ends: pa.Array[Any], values: pa.Array[Any]) -> Any:
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values))


def _listed(values: Values) -> Sequence[Any]:
    if isinstance(values, Undecoded):
        return values.decoded()
    listed: Sequence[Any] = values.to_pylist() if isinstance(values, pa.Array) else values
    return listed
