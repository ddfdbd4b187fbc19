"""The page of the dashboard and its files; who the caller is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.server.conftest import Client, Serve

from tidegate.config.config import Config
from tidegate.server.routes import dashboard
from tidegate.server.tokens import Scope, add_token, remove_token

LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
SCRIPT = b"console.log('tide');\n" * 200


@pytest.fixture
def ui(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the server takes the dashboard from."""
    folder = tmp_path / "ui"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>tidegate</title>")
    (folder / "favicon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "assets" / "index-a1b2.js").write_bytes(SCRIPT)
    (folder / "assets" / "note.secret").write_text("not of a known type")
    (tmp_path / "outside.js").write_text("secret")
    monkeypatch.setattr(dashboard, "FOLDER", folder)
    return folder


def test_the_page_is_served_at_every_path_of_the_dashboard(client: Client, ui: Path) -> None:
    for path in (
        "/ui",
        "/ui/",
        "/ui/index.html",
        "/ui/gates/a/keys/%2E%2E%2F%25?status=held&x=1",
        "/ui/a.b/c",
    ):
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert "tidegate" in answer.text
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-cache"
    etag = client.get("/ui").headers["etag"]
    assert client.get("/ui/topics", headers={"If-None-Match": etag}).status_code == 304
    (ui / "index.html").write_text("<!doctype html><title>a newer build</title>")
    assert "newer" in client.get("/ui", headers={"If-None-Match": etag}).text


def test_the_policy_of_the_page_lets_nothing_in(client: Client, ui: Path) -> None:
    assert ui
    for path in ("/ui", "/ui/assets/index-a1b2.js"):
        headers = client.get(path).headers
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-opener-policy"] == "same-origin"


def test_assets_are_kept_for_a_year_and_compressed(client: Client, ui: Path) -> None:
    assert ui
    answer = client.get("/ui/assets/index-a1b2.js", headers={"Accept-Encoding": "br, gzip"})
    assert answer.content == SCRIPT
    assert answer.headers["content-encoding"] == "gzip"
    assert int(answer.headers["content-length"]) < len(SCRIPT) / 10
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"].startswith("text/javascript")
    for plain in ("identity", "gzip;q=0"):
        answer = client.get("/ui/assets/index-a1b2.js", headers={"Accept-Encoding": plain})
        assert (answer.content, "content-encoding" in answer.headers) == (SCRIPT, False)
        assert answer.headers["vary"] == "Accept-Encoding"
    assert client.get("/ui/favicon.svg").headers["content-type"] == "image/svg+xml"


@pytest.mark.parametrize(
    "path",
    [
        "assets/none.js",
        "assets/../index.html",
        "assets/..%2F..%2Foutside.js",
        "assets/note.secret",
        "assets/",
    ],
)
def test_a_file_that_is_not_one_of_the_dashboard_is_not_served(client: Client, ui: Path, path: str) -> None:
    assert ui
    answer = client.get(f"/ui/{path}" if ".." not in path else f"/ui/{path.replace('..', '%2E%2E')}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no-such-asset")


def test_without_a_build_the_page_is_missing_by_name(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "FOLDER", tmp_path / "none")
    answer = client.get("/ui")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no-dashboard")


def test_a_link_on_any_page_opens_the_dashboard(client: Client, ui: Path) -> None:
    assert ui
    for site in ("cross-site", "same-site"):
        for path in ("/ui", "/ui/gates/door"):
            assert client.get(path, headers={**LINK, "Sec-Fetch-Site": site}).status_code == 200


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/ui", {**LINK, "Sec-Fetch-Dest": "iframe"}),
        ("/ui", {**LINK, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}),
        ("/ui/assets/index-a1b2.js", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "script"}),
        ("/ui", {**LINK, "Origin": "https://evil.example"}),
        ("/gates", LINK),
        ("/uii", LINK),
        ("/summary/live", LINK),
        ("/health/live", LINK),
    ],
)
def test_nothing_else_is_open_to_other_pages(
    client: Client, ui: Path, path: str, headers: dict[str, str]
) -> None:
    assert ui
    answer = client.get(path, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross-site")


def test_a_link_cannot_post(client: Client, ui: Path) -> None:
    assert ui
    assert client.post("/ui", headers=LINK).json()["error"]["code"] == "cross-site"


def test_the_caller_learns_its_name_and_scopes(serve: Serve, config: Config) -> None:
    file = config.folder / "tokens.json"
    token = add_token(file, "alice", Scope.OPERATE)
    client = serve(token, tokens="tokens.json")
    assert client.get("/me").json() == {
        "name": "alice",
        "scope": "operate",
        "scopes": ["read", "operate"],
        "tokens": True,
    }
    remove_token(file, "alice")
    assert client.get("/me").json()["error"]["code"] == "no-token"
    everybody = serve().get("/me").json()
    assert everybody == {
        "name": "",
        "scope": "upgrade",
        "scopes": ["read", "operate", "upgrade"],
        "tokens": False,
    }
