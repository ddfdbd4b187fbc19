"""What the demo shows, taken from the HTTP API: numbers by asking, outputs as they come."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec

from tidegate.cli.demo.api import Api, RecordStream
from tidegate.cli.demo.source import ADMITTED, TOTALS, Totals
from tidegate.errors import TidegateError

GATE = "orders-gate"
STORE = "totals"
RATE_SECONDS = 5.0
LATEST_SHOWN = 4
ALL = "1000"


class Customer(msgspec.Struct, frozen=True):
    """One customer, as far as its orders came."""

    name: str
    orders: int = 0
    cents: int = 0
    waiting: int = 0
    held: bool = False
    reason: str = ""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The demo at one moment."""

    url: str = ""
    seconds: float = 0.0
    """Since it began."""
    sent: int = 0
    sent_per_second: float = 0.0
    passed: int = 0
    """Orders that the gate let pass."""
    out_of_turn: int = 0
    """Those of them that did not follow the order before of the same customer."""
    outputs: int = 0
    outputs_per_second: float = 0.0
    slots: int = 0
    workers: list[int] = []
    """The processes that run the slots, by id."""
    restarts: int = 0
    processed_per_second: float = 0.0
    lag: int = 0
    paused: int = 0
    gate_wide: bool = False
    held: int = 0
    held_bytes: int = 0
    held_seconds: float = 0.0
    """How long the oldest order that waits has done so."""
    customers: dict[str, Customer] = {}
    latest: list[Customer] = []

    def of(self, name: str) -> Customer:
        return self.customers.get(name) or Customer(name)


class Outputs:
    """Counts what comes out, and looks whether it comes in turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}
        self._latest: dict[str, Customer] = {}
        self.passed = self.outputs = self.out_of_turn = 0

    def take(self, record: Any) -> None:
        """One record of the admitted orders or of the totals."""
        name, value = name_of(record["key"]), record["value"]
        with self._lock:
            if record["topic"] == ADMITTED.name:
                number = _whole(value, "id")
                self.passed += 1
                self.out_of_turn += number != self._last.get(name, 0) + 1
                self._last[name] = number
            else:
                self.outputs += 1
                self._latest.pop(name, None)
                self._latest[name] = Customer(name, _whole(value, "orders"), _whole(value, "cents"))

    def latest(self) -> list[Customer]:
        """The customers whose totals changed last, the newest first."""
        with self._lock:
            return list(islice(reversed(self._latest.values()), LATEST_SHOWN))


class Rate:
    """How fast a count rises, over the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def at(self, now: float, count: int) -> float:
        self._seen.append((now, count))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RATE_SECONDS:
            self._seen.popleft()
        since, before = self._seen[0]
        return (count - before) / (now - since) if now > since else 0.0


class Watch:
    """Looks at a server again and again. What it cannot tell yet is told as it was."""

    def __init__(self, api: Api, sent: Callable[[], dict[str, Totals]], began: float) -> None:
        self.api = api
        self._sent = sent
        self._began = began
        self._rates = Rate(), Rate()
        self._known: dict[str, Any] = {}
        self._outputs = Outputs()
        self._following = RecordStream(api, [ADMITTED.name, TOTALS.name], self._outputs.take)

    def close(self) -> None:
        self._following.stop()

    def snapshot(self) -> Snapshot:
        """The demo now."""
        gate = self._ask(f"/gates/{GATE}")
        keys = self._ask(f"/gates/{GATE}/keys", limit=ALL).get("keys", [])
        rows = self._ask(f"/stores/{STORE}", limit=ALL).get("rows", [])
        app: Any = next(iter(self._ask("/tasks").get("apps", [])), {})
        at_work = [slot for slot in app.get("slots", []) if slot["state"] in ("running", "restoring")]
        now, sent = time.monotonic(), sum(total.orders for total in self._sent().values())
        oldest = gate.get("oldest")
        return Snapshot(
            url=self.api.url,
            seconds=round(now - self._began, 1),
            sent=sent,
            sent_per_second=round(self._rates[0].at(now, sent), 1),
            passed=self._outputs.passed,
            out_of_turn=self._outputs.out_of_turn,
            outputs=self._outputs.outputs,
            outputs_per_second=round(self._rates[1].at(now, self._outputs.outputs), 1),
            slots=len(at_work),
            workers=[slot["pid"] for slot in at_work if slot.get("pid")],
            restarts=sum(slot.get("restarts", 0) for slot in app.get("slots", [])),
            processed_per_second=round(sum(slot["numbers"]["per_second"] for slot in at_work), 1),
            lag=app.get("lag", sent),  # before the app is known to the log, all of it waits
            paused=gate.get("paused", 0),
            gate_wide=gate.get("gate_wide", False),
            held=gate.get("held", 0),
            held_bytes=gate.get("bytes", 0),
            held_seconds=0.0 if oldest is None else round(max(0.0, time.time() - oldest / 1000), 1),
            customers=customers_of(rows, keys),
            latest=self._outputs.latest(),
        )

    def _ask(self, path: str, **query: str) -> Any:
        try:
            self._known[path] = self.api.get(path, **query)
        except TidegateError as error:
            if not error.retryable:
                raise
        return self._known.get(path, {})


def customers_of(rows: list[Any], keys: list[Any]) -> dict[str, Customer]:
    """Those with totals or with something at the gate, by name."""
    found: dict[str, Customer] = {}
    for row in rows:
        name, value = name_of(row["key"]), row["value"]
        found[name] = Customer(name, _whole(value, "orders"), _whole(value, "cents"))
    for key in keys:
        name = name_of(key["key"])
        status = key["status"] or {}
        found[name] = msgspec.structs.replace(
            found.get(name) or Customer(name),
            waiting=key["waiting"],
            held=key["held"],
            reason=status.get("reason", "") if status.get("state") == "PAUSED" else "",
        )
    return dict(sorted(found.items()))


def name_of(key: Any) -> str:
    """A key as the API shows it: text, or an object for bytes that are none."""
    return key if isinstance(key, str) else msgspec.json.encode(key).decode()


def _whole(value: Any, field: str) -> int:
    """A number of a record that anybody may have written."""
    found = value.get(field, 0) if isinstance(value, dict) else 0
    return found if isinstance(found, int) else 0
