"""State and token are kept together, and a client that starts again goes on from them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.client.followers import KINDS, follow
from tests.client.scripted import ID, frame, rows, scripted, stream

from tidegate.client import FileStorage, ModelClient

ONE, TWO, THREE = rows({"a": 1}, {"b": 2.0}, {"__proto__": {"c": -0.0}})
every = pytest.mark.parametrize("kind", KINDS)


@every
def test_a_client_goes_on_from_what_is_stored(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    with scripted([stream(frame(ONE), frame(TWO, ONE), hold=True)]) as server:
        follow(kind, server.url, 2, file=file)
    kept = msgspec.json.decode(file.read_bytes())
    assert (kept["token"], kept["state"]) == (TWO.token(ID), TWO.document())
    with scripted([stream(frame(THREE, TWO), hold=True)]) as server:
        found = follow(kind, server.url, 1, file=file)
    assert [(one.state, one.kind) for one in found.versions] == [(THREE.document(), "patch")]
    assert server.hashes == [TWO.token(ID)]
    assert [one.name for one in tmp_path.iterdir()] == ["kept.json"]


@every
def test_the_clients_read_what_the_others_have_stored(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    writer = KINDS[(KINDS.index(kind) + 1) % len(KINDS)]
    with scripted([stream(frame(THREE), hold=True)]) as server:
        follow(writer, server.url, 1, file=file)
    with scripted([stream(frame(THREE, THREE), hold=True)]) as server:
        found = follow(kind, server.url, 1, file=file)
    assert (found.states, server.hashes) == ([THREE.document()], [THREE.token(ID)])


@every
@pytest.mark.parametrize("damage", ["cut", "other id", "no JSON"])
def test_what_cannot_be_used_of_a_storage_counts_as_nothing(kind: str, damage: str, tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    whole = {
        "format": 1,
        "model": "flows",
        "id": ID,
        "token": ONE.token(ID),
        "state": {"a": 1},
        "gone": False,
    }
    text = msgspec.json.encode(whole if damage != "other id" else {**whole, "id": "another"})
    file.write_bytes({"cut": text[:-9], "other id": text, "no JSON": b"\xff\x00"}[damage])
    with scripted([stream(frame(TWO), hold=True)]) as server:
        found = follow(kind, server.url, 1, file=file)
    assert (found.states, server.hashes) == ([TWO.document()], [None])


@every
def test_a_stored_state_that_was_changed_is_found_by_its_digest(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    wrong = {
        "format": 1,
        "model": "flows",
        "id": ID,
        "token": ONE.token(ID),
        "state": {"a": 7},
        "gone": False,
    }
    file.write_bytes(msgspec.json.encode(wrong))
    with scripted([stream(frame(TWO, ONE)), stream(frame(TWO), hold=True)]) as server:
        found = follow(kind, server.url, 1, file=file)
    assert (found.states, server.hashes) == ([TWO.document()], [ONE.token(ID), None])


def test_the_stored_version_is_there_before_the_first_connection(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path / "kept.json")
    with scripted([stream(frame(ONE), hold=True)]) as server, followed(server.url, storage):
        pass
    client = ModelClient("http://127.0.0.1:1", "flows", ID, storage=storage)
    assert (client.state, client.token, client.gone) == ({"a": 1}, ONE.token(ID), False)


def test_a_failed_write_to_the_storage_is_raised_and_leaves_the_old_version(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path / "kept.json")
    frames = stream(frame(ONE), frame(TWO, ONE), hold=True)
    with scripted([frames]) as server, followed(server.url, storage) as client:
        (tmp_path / "kept.json").rename(tmp_path / "moved.json")
        (tmp_path / "kept.json").mkdir()
        versions = client.subscribe()
        assert next(versions).state == {"a": 1}
        with pytest.raises(IsADirectoryError):
            next(versions)
        assert next(versions).state == TWO.document()
    assert msgspec.json.decode((tmp_path / "moved.json").read_bytes())["token"] == ONE.token(ID)


def followed(url: str, storage: FileStorage) -> ModelClient:
    return ModelClient(url, "flows", ID, storage=storage)
