"""The registry: which requests are sent how often, every failure by name, and secrets that stay secret."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.serde.avro_types import Line, Order
from tests.serde.registry_server import RegistryServer

import tidegate
from tidegate import Avro, ConfigError, JsonSchema, RegistryError, SerdeError, Topic
from tidegate.serde.current_registry import current_registry
from tidegate.serde.registry_settings import registry_settings, resolved_registry, use_registry

CANARY = "c4n4ry"
ORDER = Order(1, "ada", 2)


@pytest.fixture
def nothing_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    before = use_registry(None)
    yield tmp_path
    use_registry(before)


def made(topic: str = "orders", **options: Any) -> Any:
    return Topic(topic, Avro[Order](**options)).value_serde


def failure(call: Any, *arguments: Any) -> RegistryError:
    with pytest.raises(RegistryError) as error:
        call(*arguments)
    assert error.value.hint
    return error.value


# --- requests ---------------------------------------------------------------------------------------


def test_declaring_topics_sends_no_request(nothing_bound: Path) -> None:
    topic = Topic("orders", Avro[Order](), key=JsonSchema[Line]())
    assert "avro[Order]" in repr(topic)
    assert topic.value_serde.schema()["format"] == "avro"


def test_each_schema_is_looked_up_once(server: RegistryServer) -> None:
    writer, reader = made(), made()
    data = b""
    for number in range(20):
        data = writer.encode(Order(number, "ada", 1))
        assert reader.decode(data).id == number
    assert reader.decode_many([data, data]) == [Order(19, "ada", 1)] * 2
    assert server.requests == ["POST /subjects/orders-value/versions", "GET /schemas/ids/1"]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [("topic-name", "orders-value"), ("record-name", "a.Order"), ("topic-record-name", "orders-a.Order")],
)
def test_subjects_are_named_in_three_ways(server: RegistryServer, subject: str, expected: str) -> None:
    made(subject=subject, name="a.Order").encode(ORDER)
    assert list(server.subjects) == [expected]


def test_outside_of_a_topic_the_record_names_the_subject(server: RegistryServer) -> None:
    Avro[Order]().encode(ORDER)
    assert list(server.subjects) == ["Order"]
    assert failure(Avro[int]().encode, 1).code == "no-subject"
    with pytest.raises(ConfigError, match="bad-subject"):
        Avro[Order](subject="mine")  # type: ignore[arg-type]


def test_without_register_the_schema_must_be_there(server: RegistryServer) -> None:
    serde = made(register=False)
    assert failure(serde.encode, ORDER).code == "not-registered"
    assert server.subjects == {}
    made().encode(ORDER)
    assert serde.encode(ORDER) == made().encode(ORDER)
    assert made().text == serde.text


def test_latest_writes_by_the_newest_schema_of_the_subject(server: RegistryServer) -> None:
    serde = made(latest=True)
    assert failure(serde.encode, ORDER).code == "not-registered"
    made().encode(ORDER)
    newer = (
        '{"type": "record", "name": "Order", "fields": ['
        '{"name": "cents", "type": "long"}, {"name": "id", "type": "long"},'
        '{"name": "customer", "type": "string"}, {"name": "extra", "type": "string", "default": "e"}]}'
    )
    number = server.add("orders-value", newer)
    assert serde.encode(ORDER) == b"\0" + number.to_bytes(4, "big") + b"\x04\x02\x06ada\x02e"
    assert serde.decode(serde.encode(ORDER)) == ORDER
    server.add("others-value", "{}", "JSON")
    assert failure(made("others", latest=True).encode, ORDER).code == "not-registered"


def test_the_registry_in_force_may_change_and_ids_change_with_it(server: RegistryServer) -> None:
    serde = made()
    ours = serde.encode(ORDER)
    assert (ours[4], serde.decode(ours)) == (1, ORDER)
    with RegistryServer() as other:
        other.add("x", '"long"')
        before = use_registry(other.settings)
        data = serde.encode(ORDER)
        assert (data[4], serde.decode(data)) == (2, ORDER)
        with pytest.raises(SerdeError, match="incompatible-schema"):
            serde.decode(ours)
        use_registry(before)
    assert serde.encode(ORDER)[4] == 1


# --- failures -----------------------------------------------------------------------------------------


def test_a_registry_that_is_away_is_no_fault_of_the_record(server: RegistryServer) -> None:
    data = b"\0" + server.add("orders-value", made().text).to_bytes(4, "big") + b"\x02\x06ada\x04\0\0"
    server.stop()
    for call, given in ((made().encode, ORDER), (made().decode, data), (made().decode_many, [data])):
        error = failure(call, given)
        assert (error.code, error.retryable) == ("registry-unreachable", True)
    server.start()
    assert (made().decode(data), made().encode(ORDER)) == (ORDER, data)


def test_what_is_known_needs_no_registry(server: RegistryServer) -> None:
    serde = made()
    data = serde.encode(ORDER)
    assert serde.decode(data) == ORDER
    server.stop()
    assert serde.decode(serde.encode(Order(2, "b", 3))) == Order(2, "b", 3)


@pytest.mark.parametrize(
    ("status", "body", "code", "retryable"),
    [
        (500, {"error_code": 50001, "message": "store"}, "registry-failed", True),
        (503, b"<html>", "registry-failed", True),
        (404, b"<html>", "registry-failed", False),
        (404, {"error_code": 404, "message": "HTTP 404 Not Found"}, "registry-failed", False),
        (403, {"error_code": 40301, "message": "no"}, "registry-refused", False),
        (200, b"<html>", "registry-failed", False),
        (200, {"nothing": 1}, "registry-failed", False),
    ],
)
def test_every_other_answer_is_reported_and_is_no_fault_of_the_record(
    server: RegistryServer, status: int, body: Any, code: str, retryable: bool
) -> None:
    data = made().encode(ORDER)
    server.answers.append((status, body))
    error = failure(made().decode, data)
    assert (error.code, error.retryable) == (code, retryable)
    assert made().decode(data) == ORDER


def test_an_answer_without_an_id_is_reported_and_not_kept(server: RegistryServer) -> None:
    server.answers.append((200, {"nothing": 1}))
    assert failure(made().encode, ORDER).code == "registry-failed"
    assert made().encode(ORDER)[4] == 1


def test_an_id_that_becomes_known_shortly_after_is_no_error(server: RegistryServer) -> None:
    data = made().encode(ORDER)
    server.answers.append((404, {"error_code": 40403, "message": "Schema not found"}))
    assert made().decode(data) == ORDER


def test_unknown_ids_do_not_hold_up_one_after_the_other(server: RegistryServer) -> None:
    for number in range(50, 70):
        with pytest.raises(SerdeError, match="unknown-schema"):
            made().decode(b"\0\0\0\0" + bytes([number]))
    assert len(server.requests) == 3 + 19


def test_an_incompatible_schema_is_refused_by_the_registry_for_every_record(server: RegistryServer) -> None:
    server.add("orders-value", '{"type": "record", "name": "Order", "fields": []}')
    error = failure(made().encode, ORDER)
    assert (error.code, error.retryable) == ("schema-refused", False)
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in error.message


def test_errors_cross_processes(server: RegistryServer) -> None:
    server.stop()
    error = pickle.loads(pickle.dumps(failure(made().encode, ORDER)))  # noqa: S301 - our own
    assert (error.code, error.retryable) == ("registry-unreachable", True)


# --- settings -----------------------------------------------------------------------------------------


def test_basic_auth_is_sent_and_its_lack_is_reported(nothing_bound: Path) -> None:
    with RegistryServer(login=f"ada:{CANARY}") as server:
        use_registry(server.settings)
        assert made().decode(made().encode(ORDER)) == ORDER
        use_registry({**server.settings, "basic.auth.user.info": "ada:wrong"})
        assert failure(made().encode, ORDER).code == "registry-refused"


def test_without_settings_they_come_from_file_and_environment(
    nothing_bound: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert failure(made().encode, ORDER).code == "no-registry"
    with RegistryServer(login=f"ada:{CANARY}") as server:
        url = server.settings["url"]
        (nothing_bound / "tidegate.toml").write_text(f'[registry]\nurl = "{url}"\nmax.retries = 0\n')
        monkeypatch.setenv("TIDEGATE_REGISTRY__BASIC_AUTH_USER_INFO", f"ada:{CANARY}")
        assert made().decode(made().encode(ORDER)) == ORDER
        assert registry_settings() == {**server.settings, "url": url}


def test_connect_binds_the_registry_of_its_settings(nothing_bound: Path) -> None:
    topic = Topic("orders", Avro[Order]())
    with RegistryServer() as server:
        folder = nothing_bound / "below"
        folder.mkdir()
        (folder / "tidegate.toml").write_text(f'[registry]\nurl = "{server.settings["url"]}"\n')
        with tidegate.connect("sqlite://", folder=folder) as log:
            log.send(topic, "ada", ORDER)
            assert [record.value for record in log.read(topic)] == [ORDER]
        assert list(server.subjects) == ["orders-value"]


def test_names_with_dots_numbers_and_secrets_are_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_LOGIN", f"ada:{CANARY}")
    section = {
        "url": "http://x",
        "basic": {"auth": {"user": {"info": {"env": "REGISTRY_LOGIN"}}}},
        "ssl.ca.location": "ca.pem",
        "timeout": "2.5",
    }
    assert resolved_registry(section) == {
        "url": "http://x",
        "basic.auth.user.info": f"ada:{CANARY}",
        "ssl.ca.location": "ca.pem",
        "timeout": 2.5,
    }
    monkeypatch.delenv("REGISTRY_LOGIN")
    with pytest.raises(ConfigError, match="missing-variable"):
        resolved_registry(section)
    with pytest.raises(ConfigError, match="bad-setting"):
        resolved_registry({"timeout": "soon"})


@pytest.mark.parametrize(
    "settings",
    [
        {"url": f"ftp://ada:{CANARY}@host"},
        {"url": f"http://ada:{CANARY}@127.0.0.1:9", "basic.auth.user.info": CANARY},
        {"url": "http://127.0.0.1:9", "basic.auth.user.info": CANARY},
        {"url": "http://127.0.0.1:9", "ssl.key.password": CANARY},
        {"url": "http://127.0.0.1:9", "ssl.ca.location": f"/nowhere/{CANARY}.pem"},
        {"url": "http://127.0.0.1:9", CANARY[:3]: CANARY},
        {"url": f"http://ada:{CANARY}@127.0.0.1:9", "max.retries": 0},
    ],
)
def test_settings_that_cannot_be_used_are_reported_without_their_secrets(
    nothing_bound: Path, settings: dict[str, Any]
) -> None:
    use_registry(settings)
    error = failure(made().encode, ORDER)
    assert error.code in {"bad-registry", "registry-unreachable"}
    reported = "".join((str(error), repr(error), repr(error.__cause__), repr(error.as_dict())))
    assert CANARY not in reported


def test_the_registry_of_the_client_itself_needs_no_server(nothing_bound: Path) -> None:
    use_registry({"url": "mock://here"})
    assert made().decode(made().encode(ORDER)) == ORDER
    with pytest.raises(SerdeError, match="unknown-schema"):
        made().decode(b"\0\0\0\0\x63\0")


def test_a_child_process_has_a_client_of_its_own(server: RegistryServer) -> None:
    ours = current_registry()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, b"other" if current_registry() is not ours else b"same")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"other"
    os.close(read)
    os.close(write)
