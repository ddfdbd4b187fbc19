"""The ACLs of docs/kafka.md are enough to run an app, and what is missing is refused by name."""

from __future__ import annotations

import logging
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from tests.runtime.fleet import LINES, Fleet, expected, send
from tests.waiting import wait_for

from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.errors import LogError
from tidegate.log.kafka.log import KafkaLog
from tidegate.log.protocol import Writer
from tidegate.log.records import Row, to_batch
from tidegate.log.topic import TopicSpec
from tidegate.testing.broker import KafkaCluster
from tidegate.types import Offset, TopicPartition

PAGE = Path(__file__).parents[2] / "docs" / "kafka.md"
USERS = ("admin", "wordcount")
RESOURCES = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}
CONFIG = {
    "listener.security.protocol.map": "BROKER:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.broker.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="admin" password="word-of-admin"'
        + "".join(f' user_{user}="word-of-{user}"' for user in USERS)
        + ";"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",  # without a name come the controller's own requests alone
}


def login(user: str) -> dict[str, Any]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"word-of-{user}",
    }


def documented() -> list[AclBinding]:
    """What the commands of the page grant."""
    commands = re.findall(r"^kafka-acls --add .*", PAGE.read_text().replace("\\\n", " "), re.MULTILINE)
    return [acl for command in commands for acl in granted(shlex.split(command)[2:])]


def granted(words: list[str]) -> Iterator[AclBinding]:
    options = [(words[index], words[index + 1]) for index in range(0, len(words), 2)]
    values = dict(options)
    kind, name = next((RESOURCES[option], value) for option, value in options if option in RESOURCES)
    pattern = ResourcePatternType[values.get("--resource-pattern-type", "literal").upper()]
    for operation in [value for option, value in options if option == "--operation"]:
        named = AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()]
        principal = values["--allow-principal"]
        yield AclBinding(kind, name, pattern, principal, "*", named, AclPermissionType.ALLOW)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """A broker that authenticates its clients, and denies what is not granted."""
    with KafkaCluster(tmp_path_factory.mktemp("guarded"), config=CONFIG) as cluster:
        yield cluster


class Grants:
    """The ACLs that the page documents, on a broker with passwords, until `close`.

    Errors that a test expects hold its frames, and thereby its fixtures: the client ends with its last
    reference, which is here and nowhere else.
    """

    def __init__(self, cluster: KafkaCluster) -> None:
        settings = {"bootstrap.servers": cluster.bootstrap, **login("admin")}
        self._client = AdminClient(settings, logger=logging.getLogger("tidegate.kafka"))
        for future in self._client.create_acls(documented()).values():
            future.result(30)

    def remove(self, kind: ResourceType, operation: AclOperation = AclOperation.ANY) -> None:
        anything: Any = None
        some = AclBindingFilter(
            kind, anything, ResourcePatternType.ANY, anything, anything, operation, AclPermissionType.ALLOW
        )
        assert self._client.delete_acls([some])[some].result(30)
        wait_for(lambda: not self._client.describe_acls(some).result(30))  # the broker applies it later

    def group_offsets(self, group: str) -> dict[str, int]:
        """What `kafka-consumer-groups` shows, as topic/partition -> offset."""
        listed = self._client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        found = listed[group].result(30).topic_partitions
        return {f"{one.topic}/{one.partition}": one.offset for one in found}

    def close(self) -> None:
        self.remove(ResourceType.ANY)
        del self._client


@pytest.fixture
def grants(guarded: KafkaCluster) -> Iterator[Grants]:
    with closing(Grants(guarded)) as made:
        yield made


def opened(cluster: KafkaCluster, user: str) -> KafkaLog:
    return KafkaLog(cluster.bootstrap, login(user))


def test_the_documented_acls_run_an_app(guarded: KafkaCluster, grants: Grants, tmp_path: Path) -> None:
    with closing(opened(guarded, "admin")) as theirs, closing(opened(guarded, "wordcount")) as log:
        fleet = Fleet(log, tmp_path)
        fleet.connection = Connection(theirs, partitions=3, clock=SystemClock(), owned=False)
        fleet.connection.send(LINES, "warm", "up")
        send(fleet, 0, 50)
        fleet.catch_up()
        assert fleet.counts() == expected(50)
        assert theirs.describe("wordcount-by-word-repartition").history_cut, "nothing was purged"

        def mirrored() -> int:
            offsets = grants.group_offsets("wordcount")
            return sum(offset for at, offset in offsets.items() if at.startswith(f"{LINES.name}/"))

        wait_for(lambda: mirrored() == 51)
        for name in [name for name in log.names() if name.startswith("wordcount-")]:
            log.delete(name)
        for name in theirs.names():
            theirs.delete(name)


def test_without_transactional_ids_a_writer_is_refused_with_a_hint(
    guarded: KafkaCluster, grants: Grants
) -> None:
    grants.remove(ResourceType.TRANSACTIONAL_ID)
    with closing(opened(guarded, "wordcount")) as log, pytest.raises(LogError) as error:
        log.writer("wordcount.active.driver")
    assert error.value.code == "not-allowed"
    assert "'wordcount.active.driver' cannot be opened" in error.value.message
    assert "docs/kafka.md" in error.value.hint
    assert not error.value.retryable


def test_without_its_group_a_reader_is_refused(guarded: KafkaCluster, grants: Grants) -> None:
    with closing(opened(guarded, "wordcount")) as log:
        log.create(TopicSpec("wordcount-own"))
        grants.remove(ResourceType.GROUP)
        with closing(log.reader({TopicPartition("wordcount-own", 0): Offset(0)})) as reader:
            assert refused(lambda: [reader.poll(1) for _ in range(20)])
        log.delete("wordcount-own")


def test_without_the_apps_group_nothing_waits_for_it(guarded: KafkaCluster, grants: Grants) -> None:
    """Positions are then not shown, and that is all."""
    grants.remove(ResourceType.GROUP)
    log = opened(guarded, "wordcount")
    log.create(TopicSpec("wordcount-own"))
    began = time.monotonic()
    for offset in range(3):
        log.mirror("wordcount", {TopicPartition("wordcount-own", 0): Offset(offset)})
    log.delete("wordcount-own")
    log.close()
    assert time.monotonic() - began < 60


def test_what_was_not_granted_is_refused_by_name(guarded: KafkaCluster, grants: Grants) -> None:
    with closing(opened(guarded, "admin")) as theirs, closing(opened(guarded, "wordcount")) as log:
        theirs.create(TopicSpec("secrets"))
        log.create(TopicSpec("wordcount-own"))
        batch = to_batch([Row(b"k", b"v", 1)])
        secret, own = TopicPartition("secrets", 0), TopicPartition("wordcount-own", 0)
        log.append(own, batch)
        assert "secrets" not in log.names()
        log.create(TopicSpec("word-counts"))  # to be written, and not read
        with closing(log.reader({TopicPartition("word-counts", 0): Offset(0)})) as reader:
            assert refused(lambda: [reader.poll(1) for _ in range(20)])
        assert refused(lambda: log.create(TopicSpec("others")))
        assert refused(lambda: log.describe("secrets"))
        assert refused(lambda: log.append(secret, batch))
        assert refused(lambda: log.delete("secrets"))
        assert refused(lambda: log.writer("others.driver"))
        with closing(log.writer("wordcount.test")) as writer:
            grants.remove(ResourceType.TOPIC, AclOperation.WRITE)
            writer.append(own, batch)
            assert refused(writer.commit)
        with closing(log.writer("wordcount.test")) as writer:
            assert refused(lambda: append_for_seconds(writer, own))
        grants.remove(ResourceType.TOPIC, AclOperation.DELETE)
        assert refused(lambda: log.purge(own, Offset(1)))
        for name in theirs.names():
            theirs.delete(name)


def append_for_seconds(writer: Writer, partition: TopicPartition) -> None:
    """The client has the broker's refusal before the next record: it then refuses that one for its state."""
    for _ in range(100):
        writer.append(partition, to_batch([Row(b"k", b"v", 1)]))
        time.sleep(0.1)


def test_a_wrong_password_is_reported_and_never_shown(guarded: KafkaCluster) -> None:
    with pytest.raises(LogError) as error:
        KafkaLog(guarded.bootstrap, login("wordcount") | {"sasl.password": "canary-word"})
    assert error.value.code == "not-authenticated"
    assert "sasl.* and ssl.* settings under [kafka]" in error.value.hint
    assert "canary-word" not in str(error.value)


def refused(call: Any) -> bool:
    with pytest.raises(LogError) as error:
        call()
    return error.value.code == "not-allowed"
