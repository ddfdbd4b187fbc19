"""Whom a server answers: the route walk, tokens, hosts, origins, tickets."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.routing import Route
from tests.gate.app import EVENTS, gated
from tests.server.conftest import Client, Serve

from tidegate.clock import SystemClock
from tidegate.config.config import Config
from tidegate.connect.connection import Connection
from tidegate.errors import ConfigError
from tidegate.log.sqlite.log import SqliteLog
from tidegate.runtime.driver.prepare import prepare
from tidegate.server import live
from tidegate.server.app import make_app
from tidegate.server.guard import needs_of
from tidegate.server.replicas import Replicas
from tidegate.server.serving import Serving
from tidegate.server.settings import ServerSettings, server_settings
from tidegate.server.streams import Streams
from tidegate.server.tokens import Scope, Tokens, add_token, remove_token

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
WRITES = (Scope.OPERATE, Scope.UPGRADE)
OPEN = {"/client.js", "/health/live", "/health/ready", "/ui", "/ui/{path:path}"}
NAMES = {"app": "gated", "gate": "door", "key": "ada", "store": "counted", "topic": "events"}
NAMES |= {
    "model": "workflows",
    "id": "w1",
    "path": "gates",
    "sink": "totals",
    "stream": "none",
    "partition": "0",
    "offset": "0",
}
PAGES = ("/ui", "/ui/gates")


@pytest.fixture
def file(config: Config) -> Path:
    return config.folder / "tokens.json"


@pytest.fixture
def tokens(file: Path) -> dict[str, str]:
    return {scope.name.lower(): add_token(file, f"the-{scope.name.lower()}", scope) for scope in Scope}


@pytest.fixture
def guarded(serve: Serve, log: SqliteLog, tokens: dict[str, str]) -> Client:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    assert tokens
    return serve(tokens="tokens.json")


@pytest.fixture
def app(log: SqliteLog, tmp_path: Path) -> Iterator[FastAPI]:
    serving = Serving(log, SystemClock(), Replicas(log, tmp_path), Streams(4, 2))
    yield make_app(serving, ServerSettings())
    serving.close()


def routes(app: FastAPI) -> list[Route]:
    return [route for route in app.router.routes if isinstance(route, Route)]


def path_of(route: Route) -> str:
    return route.path_format.format(**NAMES)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_every_route_declares_its_scope(app: FastAPI) -> None:
    assert len(routes(app)) >= 20
    assert len(routes(app)) == len(app.router.routes)
    closed = [route.path for route in routes(app) if needs_of(route) is None]
    assert closed == []
    anybody = {route.path for route in routes(app) if (said := needs_of(route)) and said.scope is None}
    assert anybody == OPEN
    unsafe = [route for route in routes(app) if route.methods and route.methods - {"GET", "HEAD"}]
    writes = {route.path for route in unsafe if (said := needs_of(route)) and said.scope in WRITES}
    assert {route.path for route in unsafe} - writes == {"/streams", "/summary/live/{stream}", "/tickets"}, (
        "what only reads"
    )


def test_the_route_walk_without_a_token(app: FastAPI, guarded: Client) -> None:
    """Every route, every method, and paths that are no route."""
    for path in [*map(path_of, routes(app)), "/", "/docs", "/redoc", "/nothing", "/gates/door/keys//pause"]:
        for method in METHODS:
            answer = guarded.request(method, path)
            if path in PAGES and method == "GET":
                assert answer.status_code in (200, 404), "404 if the dashboard was not built"
                continue
            if path in OPEN and method == "GET":
                assert answer.status_code == 200
                continue
            assert answer.status_code == 401, (method, path, answer.text)
            if method != "HEAD":
                assert answer.json()["error"]["code"] == "no-token"


def test_the_route_walk_with_a_token_that_may_only_read(
    app: FastAPI, guarded: Client, tokens: dict[str, str]
) -> None:
    for route in routes(app):
        said = needs_of(route)
        assert said is not None
        for method in (route.methods or set()) - {"HEAD"}:
            if said.ticket:
                continue  # streams: test_live
            answer = guarded.request(method, path_of(route), headers=bearer(tokens["read"]))
            if said.scope is not None and said.scope > Scope.READ:
                assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not-allowed")
            elif route.path == "/streams":
                assert answer.json()["error"]["code"] == "needs-json", "it has no body"
            else:
                assert answer.status_code in (200, 404), (method, route.path, answer.text)


def test_a_new_route_is_closed_until_it_declares_its_scope(
    log: SqliteLog, tmp_path: Path, tokens: dict[str, str], app: FastAPI
) -> None:
    from starlette.testclient import TestClient

    @app.get("/health/new")
    def new() -> str:
        return "secret"

    answer = TestClient(app, base_url="http://localhost").get("/health/new")
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "closed-route")


def test_a_token_of_each_scope(guarded: Client, tokens: dict[str, str]) -> None:
    for scope, code in (("read", 403), ("operate", 200), ("upgrade", 200)):
        answer = guarded.post("/gates/door/keys/ada/pause", headers=bearer(tokens[scope]))
        assert answer.status_code == code
    for token in tokens.values():
        assert guarded.get("/gates", headers=bearer(token)).status_code == 200
    for wrong in ("Bearer", "Bearer tg_no", f"Basic {tokens['read']}", tokens["read"], "Bearer \xff"):
        assert guarded.get("/gates", headers={b"Authorization": wrong.encode("latin-1")}).status_code == 401


def test_the_audit_names_the_owner_of_the_token(
    guarded: Client, tokens: dict[str, str], log: SqliteLog, connection: Connection
) -> None:
    for body in ({}, {"actor": "eve"}):
        guarded.post("/gates/door/keys/ada/pause", headers=bearer(tokens["operate"]), json=body)
    rows = guarded.get("/topics/gated-door-status/records", headers=bearer(tokens["read"])).json()["records"]
    assert [row["value"]["actor"] for row in rows] == ["the-operate", "eve (by the-operate)"]


def test_a_token_that_is_removed_is_refused_at_once(
    guarded: Client, tokens: dict[str, str], file: Path
) -> None:
    assert guarded.get("/gates", headers=bearer(tokens["read"])).status_code == 200
    remove_token(file, "the-read")
    assert guarded.get("/gates", headers=bearer(tokens["read"])).status_code == 401
    late = add_token(file, "late", Scope.READ)
    assert guarded.get("/gates", headers=bearer(late)).status_code == 200


def test_the_file_of_tokens_holds_none_of_them(tokens: dict[str, str], file: Path) -> None:
    text = file.read_text()
    assert all(token not in text and token.removeprefix("tg_") not in text for token in tokens.values())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [one.name for one in file.parent.glob(".tokens.json*")] == [".tokens.json.lock"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_may_read_is_refused(tokens: dict[str, str], file: Path, mode: int) -> None:
    assert tokens
    file.chmod(mode)
    with pytest.raises(ConfigError, match="tokens-exposed"):
        Tokens(file)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"format": 2}', b'{"tokens": [{"name": 1}]}', b"\xff"]
)
def test_a_file_that_holds_no_tokens_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="bad-tokens"):
        Tokens(file)


def test_tokens_are_made_once_and_removed_once(file: Path) -> None:
    add_token(file, "ada", Scope.READ)
    with pytest.raises(ConfigError, match="token-exists"):
        add_token(file, "ada", Scope.OPERATE)
    with pytest.raises(ConfigError, match="no-such-token"):
        remove_token(file, "bob")
    with pytest.raises(ConfigError, match="bad-scope"):
        Scope.of("root")
    with pytest.raises(ConfigError, match="illegal-name"):
        add_token(file, "a b", Scope.READ)
    with pytest.raises(ConfigError, match="no-tokens"):
        Tokens(file.with_name("none.json"))


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.7", "example.org", "::"])  # noqa: S104 - refused
def test_another_address_needs_tokens(host: str) -> None:
    with pytest.raises(ConfigError, match="needs-tokens"):
        server_settings({"host": host}, {})
    assert server_settings({"host": host, "tokens": "tokens.json"}, {}).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_loopback_needs_no_tokens(host: str) -> None:
    assert server_settings({}, {"host": host}).on_loopback


@pytest.mark.parametrize(
    "section", [{"prot": 1}, {"port": 70_000}, {"host": ""}, {"streams": 0}, {"certificate": "a.pem"}]
)
def test_settings_that_make_no_sense_are_refused(section: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="bad-setting"):
        server_settings(section, {})


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "", "a b"]
)
def test_a_host_name_that_is_not_the_servers_is_refused(client: Client, host: str) -> None:
    answer = client.get("/health/live", headers={"Host": host})
    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "bad-host")


def test_host_names_of_the_server_are_answered(serve: Serve) -> None:
    client = serve(hosts=["gate.example"])
    for host in ("localhost", "localhost:8470", "LOCALHOST", "127.0.0.1:1", "[::1]:9", "gate.example:443"):
        assert client.get("/health/live", headers={"Host": host}).status_code == 200, host


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
    ],
)
def test_a_page_of_another_site_changes_nothing(
    client: Client, log: SqliteLog, headers: dict[str, str]
) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    answer = client.post("/gates/door/keys/ada/pause", headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross-site")
    assert client.get("/topics/gated-door-status/records").json()["records"] == []


def test_a_page_of_the_same_or_of_an_allowed_origin_may_pause(
    client: Client, serve: Serve, log: SqliteLog
) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    own = str(client.base_url).rstrip("/")
    for headers in ({"Origin": own}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {}):
        assert client.post("/gates/door/keys/ada/pause", headers=headers).status_code == 200
    friend = serve(origins=["https://friend.example"])
    answer = friend.post("/gates/door/keys/ada/pause", headers={"Origin": "https://friend.example"})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "https://friend.example"
    assert "access-control-allow-credentials" not in answer.headers


def test_no_other_origin_may_read(client: Client) -> None:
    """Not even blindly: a call may wait, and those who wait take places."""
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = client.get("/health/live", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross-site")
        assert "access-control-allow-origin" not in answer.headers
    preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in client.options("/gates", headers=preflight).headers


def test_every_answer_has_its_headers(client: Client) -> None:
    for path in ("/health/live", "/gates", "/nothing"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "server" not in headers


def test_a_ticket_opens_one_stream(guarded: Client, tokens: dict[str, str], connection: Connection) -> None:
    connection.send(EVENTS, "ada", 1)
    ticket = guarded.post("/tickets", headers=bearer(tokens["read"])).json()["ticket"]
    path = f"/live?topic=events&from=start&ticket={ticket}"
    with guarded.stream("GET", path) as answer:
        assert answer.status_code == 200
    assert guarded.get(path).status_code == 401
    other = guarded.post("/tickets", headers=bearer(tokens["read"])).json()["ticket"]
    assert guarded.get(f"/gates?ticket={other}").status_code == 401
    assert guarded.get(f"/live?topic=events&token={tokens['read']}").status_code == 401


def test_no_token_is_ever_shown(
    guarded: Client,
    tokens: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A canary: whatever is requested, no answer and no line of a log holds it."""
    canary = tokens["operate"]
    reported = []
    for path in (
        "/gates",
        "/metrics",
        "/topology",
        "/tasks",
        "/openapi.json",
        f"/gates/{canary}x",
        "/nothing",
    ):
        answer = guarded.get(path, headers=bearer(canary))
        reported.append(answer.text.replace(f"{canary}x", ""))
    reported.append(guarded.post("/gates/door/pause", headers=bearer(canary), content=b"{").text)
    reported.append(guarded.get("/gates", headers=bearer(f"{canary}y")).text)
    out, err = capfd.readouterr()
    assert not any(canary in text for text in (*reported, caplog.text, out, err))


def test_a_token_that_is_removed_ends_its_streams_and_its_tickets(
    guarded: Client, tokens: dict[str, str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "ALLOWED_SECONDS", 0.2)  # how often tokens are looked at
    ticket = guarded.post("/tickets", headers=bearer(tokens["read"])).json()["ticket"]
    with guarded.stream("GET", "/live?topic=events", headers=bearer(tokens["read"])) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "retry: 1000"
        remove_token(file, "the-read")
        reported = [line for line in lines if line.startswith("data")]
    assert len(reported) == 1
    assert "no-token" in reported[0]
    assert guarded.get(f"/live?topic=events&ticket={ticket}").status_code == 401


def test_a_file_of_tokens_that_breaks_lets_nobody_in(
    guarded: Client, tokens: dict[str, str], file: Path
) -> None:
    file.chmod(0o644)
    answer = guarded.get("/gates", headers=bearer(tokens["read"]))
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not-ready")
    assert "file" not in answer.text
    assert guarded.get("/health/ready").status_code == 503
    file.chmod(0o600)
    assert guarded.get("/gates", headers=bearer(tokens["read"])).status_code == 200


def test_a_forwarded_for_header_is_not_trusted(serve: Serve, log: SqliteLog) -> None:
    prepare(gated().build(), log, SystemClock(), partitions=2)
    client = serve(streams_per_client=1)
    with client.stream("GET", "/live?topic=events", headers={"X-Forwarded-For": "10.0.0.1"}) as first:
        assert first.status_code == 200
        answer = client.get("/live?topic=events", headers={"X-Forwarded-For": "10.0.0.2"})
        assert answer.status_code == 429


def test_an_address_of_ipv6_is_called_in_brackets(serve: Serve) -> None:
    client = serve(host="::1")
    assert client.get("/health/live").status_code == 200
