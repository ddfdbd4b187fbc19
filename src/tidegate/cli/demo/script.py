"""The story that the demo plays when nobody types: a pause, what it changes and what not, and the sums.

1 orders flow; 2 a customer is paused, and the gate has applied it; 3 its total stands right before the first
order that waits, while the others go on; 4 it is resumed, and what waited goes out first; 5 the source stops
and everything comes through; 6 what passed the gate is each customer's orders, all of them, once and in turn,
and the totals are their plain sums.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.cli.demo.running import Scene, failed
from tidegate.cli.demo.screen import Screen
from tidegate.cli.demo.source import ADMITTED, TOTALS, Source, Totals
from tidegate.cli.demo.watch import GATE, Snapshot
from tidegate.connect.connection import Connection

CUSTOMER = "ada"
START_SECONDS = 180.0
PATIENCE_SECONDS = 60.0
APPLY_SECONDS = "60"
_PATH = f"/gates/{GATE}/keys/{CUSTOMER}"


def play(scene: Scene, source: Source, connection: Connection, seconds: float) -> None:
    """All of it; `demo-failed` if anything is not as it should be."""
    view = scene.view
    now = scene.until(lambda now: now.of(CUSTOMER).orders > 0, "the first totals", START_SECONDS)
    view.tell("flowing", f"  the first totals, after {now.seconds:.0f} s", seconds=now.seconds)
    scene.go_on(seconds / 3)
    _command(scene, "pause", reason="chargeback", actor="demo")
    scene.until(lambda now: now.of(CUSTOMER).waiting > 0, f"orders of {CUSTOMER} wait", PATIENCE_SECONDS)
    first = _first_waiting(scene)
    before = scene.until(
        lambda now: now.of(CUSTOMER).orders == first - 1, f"{CUSTOMER} stands still", PATIENCE_SECONDS
    )
    view.tell("paused", f"  paused {CUSTOMER}: order {first} is the first that waits", first_waiting=first)
    after = scene.go_on(seconds / 3)
    _check_pause(before, after, first)
    waits = after.of(CUSTOMER).waiting
    view.tell(
        "stood",
        f"  ok  {CUSTOMER}'s total stood at {first - 1} orders and {waits} wait; the others had "
        f"{_others(after) - _others(before):,} more",
        orders=first - 1,
        waiting=waits,
        others=_others(after) - _others(before),
    )
    _command(scene, "resume", actor="demo")
    scene.until(
        lambda now: not now.of(CUSTOMER).waiting and now.of(CUSTOMER).orders >= first - 1 + waits,
        f"what waits for {CUSTOMER} goes out",
        PATIENCE_SECONDS,
    )
    view.tell("resumed", f"  resumed {CUSTOMER}: what waited went out first, then what came")
    scene.go_on(seconds / 3)
    source.stop()
    count = sum(total.orders for total in source.sent.values())
    scene.until(lambda now: _all(now) == count, "everything comes through", PATIENCE_SECONDS)
    check_sums(connection, source, view)


def check_sums(connection: Connection, source: Source, view: Screen) -> None:
    """Compare with all that was sent, once it came through, and report it."""
    sent = source.sent
    count = sum(total.orders for total in sent.values())
    check(connection, sent)
    view.tell(
        "checked",
        f"  ok  {count:,} orders of {len(sent)} customers: each passed once, in turn; totals are their sums",
        orders=count,
        customers=len(sent),
    )


def check(connection: Connection, sent: Mapping[str, Totals]) -> None:
    """Compare what passed the gate, and the totals, with what was sent; `demo-failed` if they differ."""
    passed: dict[str, Totals] = {}
    for record in connection.read(ADMITTED):
        total = passed.get(record.key, Totals())
        if record.value.id != total.orders + 1:
            raise failed(f"order {record.value.id} of {record.key!r} came after order {total.orders}")
        passed[record.key] = total.plus(record.value)
    if passed != sent:
        raise failed(f"not all that was sent passed the gate: {_difference(passed, sent)}")
    if (rows := connection.rows(TOTALS)) != sent:
        raise failed(f"totals are not the sums of the orders: {_difference(rows, sent)}")


def _command(scene: Scene, verb: str, **said: str) -> None:
    answer = scene.api.post(f"{_PATH}/{verb}", said, wait="applied", seconds=APPLY_SECONDS)
    if not answer["applied"]:
        raise failed(f"the gate did not {verb} {CUSTOMER} within {APPLY_SECONDS} s")


def _first_waiting(scene: Scene) -> int:
    [event] = scene.api.get(f"{_PATH}/buffer", limit="1")["events"]
    return int(event["value"]["id"])


def _check_pause(before: Snapshot, after: Snapshot, first: int) -> None:
    if (orders := after.of(CUSTOMER).orders) != first - 1:
        raise failed(f"{CUSTOMER} is paused, and went on to {orders} orders")
    if _others(after) <= _others(before):
        raise failed(f"{CUSTOMER} is paused, and the others stand still too")


def _others(now: Snapshot) -> int:
    return _all(now) - now.of(CUSTOMER).orders


def _all(now: Snapshot) -> int:
    return sum(one.orders for one in now.customers.values())


def _difference(found: Mapping[str, Totals], sent: Mapping[str, Totals]) -> str:
    name = min(name for name in found.keys() | sent.keys() if found.get(name) != sent.get(name))
    return f"{name!r} has {found.get(name)}, sent was {sent.get(name)}"
