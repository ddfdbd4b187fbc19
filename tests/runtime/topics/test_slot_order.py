"""An order travels whole, and is never printed with its secrets."""

from __future__ import annotations

from pathlib import Path

from tidegate.log.location import LogLocation
from tidegate.runtime.topics.slot_order import SlotOrder

CANARY = "c4n4ry"
ORDER = SlotOrder(
    app="shop:app",
    app_id="shop",
    settings={"pager_key": CANARY},
    registry={"url": "http://registry", "basic.auth.user.info": CANARY},
    fingerprint="f",
    log=LogLocation("sqlite:///log.db", Path("folder"), {"sasl.password": CANARY}),
    folder="folder",
    state_dir="state",
    epoch=1,
    slot=2,
    attempt=3,
    writer="w",
    commit_interval_ms=100,
)


def test_an_order_is_read_as_it_was_written() -> None:
    assert SlotOrder.decode(ORDER.encode()) == ORDER


def test_an_order_is_printed_without_settings() -> None:
    assert CANARY not in f"{ORDER!r} {ORDER}"
