"""The script that the demo runs without a user: pause a customer, resume it, and check the result.

1 wait for the first totals; 2 pause a customer, and wait until the gate has applied it; 3 check that its
total stops right before its first held order, while the totals of the others change; 4 resume it: its held
orders are released first; 5 stop the source and wait until all orders have been processed; 6 check that each
customer's orders passed the gate once and in order, and that the totals are their sums.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.cli.demo.running import RunningDemo, failed
from tidegate.cli.demo.screen import Screen
from tidegate.cli.demo.source import ADMITTED, TOTALS, Source, Totals
from tidegate.cli.demo.watch import GATE, Snapshot
from tidegate.connect.connection import Connection

CUSTOMER = "ada"
START_SECONDS = 180.0
PATIENCE_SECONDS = 60.0
APPLY_SECONDS = "60"
_PATH = f"/gates/{GATE}/keys/{CUSTOMER}"


def run_script(demo: RunningDemo, source: Source, connection: Connection, seconds: float) -> None:
    """Run all steps; raises `demo-failed` if a check fails."""
    screen = demo.screen
    now = demo.wait_until(lambda now: now.of(CUSTOMER).orders > 0, "the first totals", START_SECONDS)
    screen.report("flowing", f"  the first totals, after {now.seconds:.0f} s", seconds=now.seconds)
    demo.run_for(seconds / 3)
    _command(demo, "pause", reason="chargeback", actor="demo")
    demo.wait_until(
        lambda now: now.of(CUSTOMER).waiting > 0, f"orders of {CUSTOMER} are held", PATIENCE_SECONDS
    )
    first = _first_waiting(demo)
    before = demo.wait_until(
        lambda now: now.of(CUSTOMER).orders == first - 1, f"the total of {CUSTOMER} stops", PATIENCE_SECONDS
    )
    screen.report(
        "paused", f"  paused {CUSTOMER}: order {first} is the first held order", first_waiting=first
    )
    after = demo.run_for(seconds / 3)
    _check_pause(before, after, first)
    waits = after.of(CUSTOMER).waiting
    screen.report(
        "stood",
        f"  ok  {CUSTOMER}'s total stayed at {first - 1} orders and {waits} are held; the others had "
        f"{_others(after) - _others(before):,} more orders",
        orders=first - 1,
        waiting=waits,
        others=_others(after) - _others(before),
    )
    _command(demo, "resume", actor="demo")
    demo.wait_until(
        lambda now: not now.of(CUSTOMER).waiting and now.of(CUSTOMER).orders >= first - 1 + waits,
        f"the held orders of {CUSTOMER} are released",
        PATIENCE_SECONDS,
    )
    screen.report("resumed", f"  resumed {CUSTOMER}: its held orders were released first, then new ones")
    demo.run_for(seconds / 3)
    source.stop()
    count = sum(total.orders for total in source.sent.values())
    demo.wait_until(lambda now: _all(now) == count, "all orders are processed", PATIENCE_SECONDS)
    check_sums(connection, source, screen)


def check_sums(connection: Connection, source: Source, screen: Screen) -> None:
    """Check the result once all orders were processed, and report it."""
    sent = source.sent
    count = sum(total.orders for total in sent.values())
    check(connection, sent)
    screen.report(
        "checked",
        f"  ok  {count:,} orders of {len(sent)} customers: each passed once, in order; totals are their sums",
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
        raise failed(
            f"the orders that passed the gate are not those that were sent: {_difference(passed, sent)}"
        )
    if (rows := connection.rows(TOTALS)) != sent:
        raise failed(f"the totals are not the sums of the orders: {_difference(rows, sent)}")


def _command(demo: RunningDemo, verb: str, **body: str) -> None:
    response = demo.api.post(f"{_PATH}/{verb}", body, wait="applied", seconds=APPLY_SECONDS)
    if not response["applied"]:
        raise failed(f"the gate did not {verb} {CUSTOMER} within {APPLY_SECONDS} s")


def _first_waiting(demo: RunningDemo) -> int:
    [event] = demo.api.get(f"{_PATH}/buffer", limit="1")["events"]
    return int(event["value"]["id"])


def _check_pause(before: Snapshot, after: Snapshot, first: int) -> None:
    if (orders := after.of(CUSTOMER).orders) != first - 1:
        raise failed(f"{CUSTOMER} is paused, and its total went on to {orders} orders")
    if _others(after) <= _others(before):
        raise failed(f"{CUSTOMER} is paused, and the totals of the others do not change either")


def _others(now: Snapshot) -> int:
    return _all(now) - now.of(CUSTOMER).orders


def _all(now: Snapshot) -> int:
    return sum(one.orders for one in now.customers.values())


def _difference(found: Mapping[str, Totals], sent: Mapping[str, Totals]) -> str:
    name = min(name for name in found.keys() | sent.keys() if found.get(name) != sent.get(name))
    return f"{name!r} has {found.get(name)}, but {sent.get(name)} was sent"
