"""librdkafka's own mock brokers, which answer as a test sets them: for faults that real brokers show seldom.

confluent_kafka does not offer them, so the library that it brings is called directly. They know neither the
settings of topics nor descriptions of them: `Described` stands in for that.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import files
from typing import Any

from tidegate.log.kafka.clients import Clients
from tidegate.log.kafka.topics import Topics
from tidegate.log.topic import TopicInfo

PRODUCE, INIT_PRODUCER, END_TRANSACTION = 0, 22, 26
_PRODUCER = 0


def _library() -> ctypes.CDLL:
    named = next(file for file in files("confluent-kafka") or () if file.name.startswith("librdkafka"))
    library = ctypes.CDLL(str(named.locate()))
    library.rd_kafka_conf_new.restype = ctypes.c_void_p
    library.rd_kafka_conf_set.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.c_size_t,
    ]
    library.rd_kafka_new.restype = ctypes.c_void_p
    library.rd_kafka_new.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_new.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    library.rd_kafka_mock_cluster_bootstraps.argtypes = [ctypes.c_void_p]
    library.rd_kafka_mock_topic_create.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_int,
    ]
    library.rd_kafka_mock_push_request_errors_array.argtypes = [
        ctypes.c_void_p,
        ctypes.c_int16,
        ctypes.c_size_t,
        ctypes.c_void_p,
    ]
    library.rd_kafka_mock_clear_request_errors.argtypes = [ctypes.c_void_p, ctypes.c_int16]
    library.rd_kafka_mock_cluster_destroy.argtypes = [ctypes.c_void_p]
    library.rd_kafka_destroy.argtypes = [ctypes.c_void_p]
    return library


class MockCluster:
    """One broker, with topics of one partition."""

    def __init__(self, library: ctypes.CDLL, cluster: int) -> None:
        self._library = library
        self._cluster = cluster
        self.bootstrap: str = library.rd_kafka_mock_cluster_bootstraps(cluster).decode()

    def create(self, topic: str) -> None:
        assert not self._library.rd_kafka_mock_topic_create(self._cluster, topic.encode(), 1, 1)

    def answer(self, request: int, *errors: int) -> None:
        """The next requests of this kind get these errors, one each; 0 is none."""
        numbers = (ctypes.c_int * len(errors))(*errors)
        self._library.rd_kafka_mock_push_request_errors_array(self._cluster, request, len(errors), numbers)

    def forget(self, *requests: int) -> None:
        """No errors any more for requests of these kinds."""
        for request in requests:
            self._library.rd_kafka_mock_clear_request_errors(self._cluster, request)

    def clients(self, **settings: Any) -> Clients:
        return Clients(self.bootstrap, {name.replace("_", "."): value for name, value in settings.items()})

    def clients_in_python(self, **settings: Any) -> Clients:
        return Clients(self.bootstrap, settings, compiled=False)


@contextmanager
def mock_cluster() -> Iterator[MockCluster]:
    library = _library()
    error = ctypes.create_string_buffer(256)
    settings = library.rd_kafka_conf_new()
    library.rd_kafka_conf_set(settings, b"log_level", b"0", error, len(error))
    handle = library.rd_kafka_new(_PRODUCER, settings, error, len(error))
    assert handle, error.value
    cluster = library.rd_kafka_mock_cluster_new(handle, 1)
    try:
        yield MockCluster(library, cluster)
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(handle)


class Described(Topics):
    """Topics of one partition, as a cluster would describe them."""

    def describe(self, name: str) -> TopicInfo:
        return TopicInfo(name, "uid", {}, (0,))
