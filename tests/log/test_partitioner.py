"""Keys go where Kafka's own producer would put them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidegate.log.partition_column import FEW_KEYS, partition_column
from tidegate.log.partitioner import murmur2, partition_for

KAFKAS_OWN_TESTS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), KAFKAS_OWN_TESTS.items())
def test_the_hash_is_the_one_in_kafkas_own_tests(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


@settings(deadline=None)
@given(st.binary(max_size=200))
@example(b"")
@example(b"\xff\xff\xff\xff")
def test_the_hash_is_what_the_java_code_computes_step_by_step(key: bytes) -> None:
    assert murmur2(key) == java_murmur2(key)
    assert murmur2(memoryview(key)) == java_murmur2(key)  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(1, 10_000))
def test_the_partition_is_the_hash_without_its_sign_bit(key: bytes, partitions: int) -> None:
    partition = partition_for(key, partitions)
    assert 0 <= partition < partitions
    assert partition == (java_murmur2(key) & 0x7FFFFFFF) % partitions


def test_a_negative_hash_is_not_negated() -> None:
    assert partition_for(b"21", 12) == (-973932308 & 0x7FFFFFFF) % 12 == 0
    assert abs(-973932308) % 12 == 8


def java_murmur2(data: bytes) -> int:
    """`org.apache.kafka.common.utils.Utils.murmur2`, line by line, with Java's 32-bit wrap-around."""
    m = 0x5BD1E995
    h = as_int(0x9747B28C ^ len(data))
    for i in range(len(data) // 4):
        at = i * 4
        k = as_int(data[at] + (data[at + 1] << 8) + (data[at + 2] << 16) + (data[at + 3] << 24))
        k = as_int(k * m)
        k ^= shift_right_unsigned(k, 24)
        k = as_int(k * m)
        h = as_int(h * m)
        h ^= k
    rest = len(data) & ~3
    if len(data) % 4 == 3:
        h = as_int(h ^ data[rest + 2] << 16)
    if len(data) % 4 >= 2:
        h = as_int(h ^ data[rest + 1] << 8)
    if len(data) % 4 >= 1:
        h = as_int(h ^ data[rest])
        h = as_int(h * m)
    h ^= shift_right_unsigned(h, 13)
    h = as_int(h * m)
    h ^= shift_right_unsigned(h, 15)
    return h


def as_int(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def shift_right_unsigned(number: int, by: int) -> int:
    return as_int((number % 2**32) >> by)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20), max_size=40), st.integers(1, 10_000), st.booleans())
@example([b""] * 300, 3, False)
@example([b"%d" % number for number in range(100_000, 100_400)], 7, True)
@example([b"x" * number for number in range(100)] * 5, 7, True)
def test_a_column_has_the_partitions_of_its_keys(keys: list[bytes], partitions: int, sliced: bool) -> None:
    many = keys * (1 + FEW_KEYS // max(1, len(keys)))
    column = pa.array([b"first", *many], pa.binary()).slice(1) if sliced else pa.array(many, pa.binary())
    assert partition_column(column, partitions).to_pylist() == [
        partition_for(key, partitions) for key in many
    ]
