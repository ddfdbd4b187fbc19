"""The numbers of the demo, from the HTTP API: some are requested, outputs are streamed."""

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
    """One customer, with its totals and held orders."""

    name: str
    orders: int = 0
    cents: int = 0
    waiting: int = 0
    held: bool = False
    reason: str = ""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of the demo at one time."""

    url: str = ""
    seconds: float = 0.0
    """Since it began."""
    sent: int = 0
    sent_per_second: float = 0.0
    passed: int = 0
    """Orders that passed the gate."""
    out_of_turn: int = 0
    """Those of them that did not directly follow the previous order of the same customer."""
    outputs: int = 0
    outputs_per_second: float = 0.0
    slots: int = 0
    workers: list[int] = []
    """The ids of the processes that run the slots."""
    restarts: int = 0
    processed_per_second: float = 0.0
    lag: int = 0
    paused: int = 0
    gate_wide: bool = False
    held: int = 0
    held_bytes: int = 0
    held_seconds: float = 0.0
    """The age of the oldest held order."""
    customers: dict[str, Customer] = {}
    latest: list[Customer] = []

    def of(self, name: str) -> Customer:
        return self.customers.get(name) or Customer(name)


class Outputs:
    """Counts outputs, and checks their order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}
        self._latest: dict[str, Customer] = {}
        self.passed = self.outputs = self.out_of_turn = 0

    def take(self, record: Any) -> None:
        """Count a record of the admitted orders or of the totals."""
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
    """The rate at which a count rises, over the last seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque()

    def at(self, now: float, count: int) -> float:
        self._samples.append((now, count))
        while len(self._samples) > 2 and self._samples[1][0] <= now - RATE_SECONDS:
            self._samples.popleft()
        since, before = self._samples[0]
        return (count - before) / (now - since) if now > since else 0.0


class Watch:
    """Reads the numbers from a server. If a request fails and may be retried, the last response is used."""

    def __init__(self, api: Api, sent: Callable[[], dict[str, Totals]], began: float) -> None:
        self.api = api
        self._sent = sent
        self._began = began
        self._rates = Rate(), Rate()
        self._known: dict[str, Any] = {}
        self._outputs = Outputs()
        self._stream = RecordStream(api, [ADMITTED.name, TOTALS.name], self._outputs.take)

    def close(self) -> None:
        self._stream.stop()

    def snapshot(self) -> Snapshot:
        """Read the numbers now."""
        gate = self._get(f"/gates/{GATE}")
        keys = self._get(f"/gates/{GATE}/keys", limit=ALL).get("keys", [])
        rows = self._get(f"/stores/{STORE}", limit=ALL).get("rows", [])
        app: Any = next(iter(self._get("/tasks").get("apps", [])), {})
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
            lag=app.get("lag", sent),  # before the app's first start all orders count as lag
            paused=gate.get("paused", 0),
            gate_wide=gate.get("gate_wide", False),
            held=gate.get("held", 0),
            held_bytes=gate.get("bytes", 0),
            held_seconds=0.0 if oldest is None else round(max(0.0, time.time() - oldest / 1000), 1),
            customers=customers_of(rows, keys),
            latest=self._outputs.latest(),
        )

    def _get(self, path: str, **query: str) -> Any:
        try:
            self._known[path] = self.api.get(path, **query)
        except TidegateError as error:
            if not error.retryable:
                raise
        return self._known.get(path, {})


def customers_of(rows: list[Any], keys: list[Any]) -> dict[str, Customer]:
    """The customers with totals or with a status at the gate, by name."""
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
    """A key as the API returns it: text, or an object for other bytes."""
    return key if isinstance(key, str) else msgspec.json.encode(key).decode()


def _whole(value: Any, field: str) -> int:
    """A number in a record, or 0 if the record is not as the demo writes it."""
    found = value.get(field, 0) if isinstance(value, dict) else 0
    return found if isinstance(found, int) else 0
