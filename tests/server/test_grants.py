"""Grants: who holds one may read one model and id, until its end, and nothing else."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.routing import Route
from starlette.testclient import TestClient
from tests.models.app import workflows
from tests.server.conftest import Client, Serve
from tests.server.test_security import NAMES

from tidegate.clock import ManualClock, SystemClock
from tidegate.config.config import Config
from tidegate.errors import TidegateError
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.server.app import make_app
from tidegate.server.grants import LONGEST_SECONDS, Grant, Grants
from tidegate.server.guard import allowed_until, may_read, needs, needs_of
from tidegate.server.replicas import Replicas
from tidegate.server.serving import Serving
from tidegate.server.settings import ServerSettings
from tidegate.server.streams import Streams
from tidegate.server.tokens import Scope, Tokens, add_token, remove_token

NOW = 1_700_000_000_000
GRANT = Grant("workflows", "workflows", "w1", False, NOW + 60_000)


@pytest.fixture
def file(config: Config) -> Path:
    return config.folder / "tokens.json"


@pytest.fixture
def token(file: Path) -> str:
    return add_token(file, "backend", Scope.OPERATE)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def backend(serve: Serve, log: SqliteLog, token: str) -> Client:
    prepare(workflows().build(), log, SystemClock(), partitions=2)
    return serve(token, tokens="tokens.json")


@pytest.fixture
def app(log: SqliteLog, tmp_path: Path, file: Path, token: str, clock: ManualClock) -> Iterator[FastAPI]:
    """The application of a server, with routes that show what its guard lets through."""
    assert token
    prepare(workflows().build(), log, SystemClock(), partitions=2)
    serving = Serving(log, clock, Replicas(log, tmp_path), Streams(4, 2), Tokens(file))
    made = make_app(serving, ServerSettings())

    @made.get("/probe/{model}/{id}")
    @needs(Scope.READ, ticket=True, grant=True)
    async def probe(request: Request) -> int | None:
        return allowed_until(request)

    @made.get("/probe")
    @needs(Scope.READ, grant=True)
    async def one_of_many(request: Request, app: str, model: str, id: str) -> bool:
        may_read(request, app, model, id)
        return True

    routes = made.router.routes
    routes[:0] = [routes.pop(), routes.pop()]  # before those of models, which have the same shape
    yield made
    serving.close()


@pytest.fixture
def http(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app, base_url="http://localhost") as made:
        yield made


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def granted(client: Any, token: str, **body: Any) -> str:
    answer = client.post("/grants", json={"model": "workflows", **body}, headers=bearer(token))
    assert answer.status_code == 200, answer.text
    found: str = answer.json()["grant"]
    return found


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_a_grant_permits_one_id(http: TestClient, token: str) -> None:
    held = bearer(granted(http, token, id="a/é", seconds=60))
    answer = http.get("/probe/workflows/a%2F%C3%A9", headers=held)
    assert (answer.status_code, answer.json()) == (200, NOW + 60_000)
    for other in (
        "workflows/a",
        "workflows/a%2F%C3%A9x",
        "workflows/b",
        "others/a%2F%C3%A9",
        "workflows/%FF",
    ):
        assert code(http.get(f"/probe/{other}", headers=held)) == (403, "not-granted")
    assert http.get("/probe/others/b", headers=bearer(token)).json() is None


def test_a_grant_for_a_prefix_permits_the_ids_that_begin_with_it(http: TestClient, token: str) -> None:
    held = bearer(granted(http, token, prefix="ada/"))
    assert http.get("/probe/workflows/ada%2F1", headers=held).status_code == 200
    assert http.get("/probe/workflows/ada%2F", headers=held).status_code == 200
    for other in ("workflows/ada", "workflows/bob%2F1", "others/ada%2F1"):
        assert code(http.get(f"/probe/{other}", headers=held)) == (403, "not-granted")


def test_a_route_that_reads_many_ids_checks_each(http: TestClient, token: str) -> None:
    held = bearer(granted(http, token, id="w1"))
    permitted = {"app": "workflows", "model": "workflows", "id": "w1"}
    assert http.get("/probe", params=permitted, headers=held).json() is True
    for name in permitted:
        answer = http.get("/probe", params={**permitted, name: "another"}, headers=held)
        assert code(answer) == (403, "not-granted")
    assert http.get("/probe", params={**permitted, "id": "w2"}, headers=bearer(token)).json() is True


def test_every_other_route_is_refused(app: FastAPI, http: TestClient, token: str) -> None:
    held = bearer(granted(http, token, id="w1"))
    routes = [route for route in app.router.routes if isinstance(route, Route)]
    refused = 0
    for route in routes:
        needed = needs_of(route)
        assert needed is not None
        if needed.scope is None or needed.grant:
            continue
        for method in route.methods or ():
            answer = http.request(method, route.path_format.format(**NAMES), headers=held)
            assert answer.status_code == 403, (method, route.path, answer.text)
            refused += 1
    assert refused >= 20
    assert code(http.get("/nothing/at/all", headers=held)) == (403, "not-granted")


def test_a_ticket_of_a_grant_permits_what_the_grant_permits(http: TestClient, token: str) -> None:
    def ticket(grant: str) -> dict[str, str]:
        return {"ticket": http.post("/tickets", headers=bearer(grant)).json()["ticket"]}

    grant = granted(http, token, id="w1")
    assert http.get("/probe/workflows/w1", params=ticket(grant)).status_code == 200
    assert code(http.get("/probe/workflows/w2", params=ticket(grant))) == (403, "not-granted")
    assert code(http.get("/live", params={"topic": "events", **ticket(grant)})) == (403, "not-granted")


def test_a_grant_ends(http: TestClient, token: str, clock: ManualClock) -> None:
    grant = granted(http, token, id="w1", seconds=20)
    ticket = http.post("/tickets", headers=bearer(grant)).json()["ticket"]
    clock.advance(19_999)
    assert http.get("/probe/workflows/w1", headers=bearer(grant)).status_code == 200
    clock.advance(1)
    assert code(http.get("/probe/workflows/w1", headers=bearer(grant))) == (401, "grant-ended")
    assert code(http.get("/probe/workflows/w1", params={"ticket": ticket})) == (401, "grant-ended")


def test_grants_hold_on_every_server_and_die_with_the_token(
    serve: Serve, backend: Client, file: Path, token: str
) -> None:
    grant = granted(backend, token, id="w1")
    other = serve(tokens="tokens.json")
    assert other.post("/tickets", headers=bearer(grant)).status_code == 200
    remove_token(file, "backend")
    assert code(other.post("/tickets", headers=bearer(grant))) == (401, "no-token")
    add_token(file, "backend", Scope.OPERATE)
    assert code(other.post("/tickets", headers=bearer(grant))) == (401, "no-token")


def test_only_what_was_signed_is_accepted(file: Path, token: str, clock: ManualClock) -> None:
    tokens = Tokens(file)
    grants = Grants(tokens, clock)
    [entry] = tokens.entries()
    text = grants.issue(entry.hash, GRANT)
    assert grants.find(text) == (entry, GRANT)
    payload, signature = text.removeprefix("tgg_").split(".")
    other = base64.urlsafe_b64encode(base64.urlsafe_b64decode(payload + "==").replace(b"w1", b"w2")).decode()
    changed = [f"tgg_{other.rstrip('=')}.{signature}", f"tgg_{payload}.", f"tgg_{payload}", "tgg_", "tgg_."]
    changed += [f"tgg_{payload}.{signature}x", f"tgg_{payload}.{signature}.x", f"{text}=", "tgg_\xe9.\xe9"]
    changed += [text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :] for at in range(4, len(text))]
    changed += ["tgg_" + "A" * 10_000, "tgg_bnVsbA.x", grants.issue("a hash that is not in the file", GRANT)]
    assert [one for one in changed if grants.find(one) is not None] == []
    assert token not in text
    assert entry.hash not in text


def test_a_grant_of_a_token_that_may_only_read_or_without_an_end_is_refused(
    file: Path, token: str, clock: ManualClock
) -> None:
    """The holder of a token can compute its key; that gives nothing that the token does not permit."""
    assert token
    add_token(file, "reader", Scope.READ)
    tokens = Tokens(file)
    grants = Grants(tokens, clock)
    backend, reader = tokens.entries()
    assert grants.find(grants.issue(reader.hash, GRANT)) is None
    for hours, accepted in ((24, True), (25, False)):
        long = Grant("workflows", "workflows", "w1", False, NOW + hours * 3_600_000)
        assert (grants.find(grants.issue(backend.hash, long)) is not None) == accepted
    with pytest.raises(TidegateError) as error:
        grants.find(grants.issue(backend.hash, Grant("workflows", "workflows", "w1", False, NOW)))
    assert error.value.code == "grant-ended"


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ({"id": "w1", "prefix": "w"}, (400, "bad-body")),
        ({}, (400, "bad-body")),
        ({"id": "w1", "seconds": LONGEST_SECONDS + 1}, (400, "bad-body")),
        ({"id": "w1", "seconds": 0}, (400, "bad-body")),
        ({"id": "w1", "seconds": "60"}, (400, "bad-body")),
        ({"id": "w1", "until": 5}, (400, "bad-body")),
        ({"id": 1}, (400, "bad-body")),
        ({"id": ""}, (400, "bad-id")),
        ({"prefix": ""}, (400, "bad-id")),
        ({"id": "é" * 257}, (400, "bad-id")),
        ({"id": "w1", "model": "others"}, (404, "no-such-model")),
        ({"id": "w1", "app": "others"}, (404, "never-started")),
    ],
)
def test_a_bad_body_is_refused(
    http: TestClient, token: str, body: dict[str, Any], refused: tuple[int, str]
) -> None:
    answer = http.post("/grants", json={"model": "workflows", **body}, headers=bearer(token))
    assert code(answer) == refused


def test_only_tokens_that_may_operate_issue_grants(http: TestClient, file: Path, token: str) -> None:
    reader = add_token(file, "reader", Scope.READ)
    body = {"model": "workflows", "id": "w1"}
    assert code(http.post("/grants", json=body, headers=bearer(reader))) == (403, "not-allowed")
    grant = granted(http, token, id="w1")
    assert code(http.post("/grants", json=body, headers=bearer(grant))) == (403, "not-granted")
    assert code(http.post("/grants", json=body)) == (401, "no-token")


def test_a_server_without_tokens_issues_none(client: Client) -> None:
    answer = client.post("/grants", json={"model": "workflows", "id": "w1"})
    assert code(answer) == (400, "grants-need-tokens")
