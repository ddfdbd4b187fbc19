"""Upgrades over HTTP: their state, consent, and cancelling."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.server.conftest import Client, Serve
from tests.server.test_gates import got
from tests.upgrade.test_upgrade import TOTALS, shop
from tests.upgrade.test_upgrade_refused import sent

from tidegate import UpgradeError
from tidegate.config.config import Config
from tidegate.log.sqlite.log import SqliteLog
from tidegate.server.tokens import Scope, add_token
from tidegate.testing import Driver
from tidegate.upgrade.consent import Consent


@pytest.fixture
def waiting(log: SqliteLog) -> Iterator[Driver]:
    """An app whose upgrade waits for consent."""
    with Driver(shop(), partitions=2, log=log) as d:
        sent(d)
        with pytest.raises(UpgradeError):
            d.upgrade(shop(300), Consent())
        yield d


def test_an_upgrade_that_waits_is_shown_and_consented_to(client: Client, waiting: Driver) -> None:
    [app] = got(client, "/upgrades")["apps"]
    assert (app["generation"], app["upgrade"]["state"]) == (1, "waiting")
    assert app["upgrade"]["differences"]["totals"]["removed"] == 6
    assert [one["code"] for one in app["upgrade"]["questions"]] == ["many-removed"]
    assert [one["state"] for one in app["generations"]] == ["active", "candidate"]
    candidate = app["generations"][1]
    assert candidate["components"] == {"sums": "recalculate"}
    [change] = candidate["changes"]
    assert change.startswith("new filter (")
    ready = client.get("/health/ready")
    assert (ready.status_code, ready.json()["reason"]) == (503, "waiting-for-consent")
    assert got(client, "/apps/shop")["waits_for"][0]["code"] == "many-removed"
    assert client.post("/upgrades/shop/consent", json={"yes": True}).status_code == 200
    answer = client.post("/upgrades/shop/consent", json={"allow_removals": ["totals"]}).json()
    assert (answer["consent"]["yes"], answer["consent"]["removals"]) == (True, ["totals"])
    waiting.upgrade(shop(300), Consent())
    assert waiting.rows(TOTALS) == {"k0": 0, "k1": 100, "k2": 200}
    assert got(client, "/health/ready") == {"ready": True}
    late = client.post("/upgrades/shop/consent", json={"yes": True})
    assert late.json()["error"]["code"] == "no-upgrade"


def test_an_upgrade_is_cancelled(client: Client, waiting: Driver) -> None:
    assert client.post("/upgrades/shop/cancel").json()["state"] == "cancelled"
    [app] = got(client, "/upgrades")["apps"]
    assert (app["upgrade"]["state"], len(app["generations"])) == ("cancelled", 1)
    assert got(client, "/health/ready") == {"ready": True}
    assert client.post("/upgrades/shop/cancel").json()["error"]["code"] == "no-upgrade"
    waiting.run()
    assert len(waiting.rows(TOTALS)) == 9


def test_who_decided_what_is_kept_and_shown(serve: Serve, config: Config, waiting: Driver) -> None:
    owner = serve(add_token(config.folder / "tokens.json", "owner", Scope.UPGRADE), tokens="tokens.json")
    allowed = {"allow_removals": ["totals"], "actor": "ada", "reason": "agreed with the shop"}
    assert owner.post("/upgrades/shop/consent", json=allowed).status_code == 200
    assert owner.post("/upgrades/shop/cancel", json={"reason": "wrong limit"}).status_code == 200
    with pytest.raises(UpgradeError):
        waiting.upgrade(shop(200), Consent())
    [app] = got(owner, "/upgrades")["apps"]
    consent, cancel = app["decisions"]
    assert consent["by"] == {"actor": "ada (by owner)", "reason": "agreed with the shop", "via": "http"}
    assert (consent["kind"], consent["generation"], consent["removals"]) == ("consent", 2, ["totals"])
    assert [one["text"] for one in consent["questions"]] == ["6 of 9 rows of totals would be removed"]
    assert (cancel["kind"], cancel["by"]["actor"], cancel["by"]["reason"]) == (
        "cancel",
        "owner",
        "wrong limit",
    )
    assert consent["at"] > 0
    assert app["consent"] is None, "the next candidate needs its own"
    long = owner.post("/upgrades/shop/cancel", json={"reason": "x" * 5000})
    assert (long.status_code, long.json()["error"]["code"]) == (400, "too-long")


def test_only_the_scope_upgrade_may_decide(serve: Serve, config: Config, waiting: Driver) -> None:
    assert waiting
    file = config.folder / "tokens.json"
    operator = serve(add_token(file, "ops", Scope.OPERATE), tokens="tokens.json")
    for call in ("consent", "cancel"):
        assert operator.post(f"/upgrades/shop/{call}", json={}).status_code == 403
    owner = serve(add_token(file, "owner", Scope.UPGRADE), tokens="tokens.json")
    answer = owner.post("/upgrades/shop/consent", json={"yes": True})
    assert (answer.status_code, answer.json()["consent"]["by"]) == (200, "owner")
