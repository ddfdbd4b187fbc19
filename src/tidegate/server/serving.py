"""What all routes share: the log, the apps on it, replicas and followers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request

from tidegate.clock import Clock
from tidegate.errors import ConfigError
from tidegate.gate.query import Changelogs, GateQuery
from tidegate.log.protocol import Log
from tidegate.runtime.topics.manifests import Manifests
from tidegate.server.app_follower import AppFollowers
from tidegate.server.app_report import AppReports
from tidegate.server.grants import Grants
from tidegate.server.guard import Caller
from tidegate.server.idempotency import IdempotentCalls
from tidegate.server.model_hub import Hub
from tidegate.server.model_outcomes import ModelOutcomes
from tidegate.server.replicas import HISTORY, Replicas, ReplicaSnapshots
from tidegate.server.sampler import Sampler
from tidegate.server.streams import Streams
from tidegate.server.summary import Summary
from tidegate.server.tabs import Tabs
from tidegate.server.tickets import Tickets
from tidegate.server.tokens import Tokens
from tidegate.server.topic_formats import TopicFormat, topic_formats
from tidegate.server.upgrade_rows import UpgradeRows
from tidegate.topology.manifest import Manifest, StoreEntry
from tidegate.types import TopicPartition

MAX_AGE_SECONDS = 2.0
MAX_AGE_AFTER_MISS_SECONDS = 0.25
WAIT_SECONDS = 10.0
GATE_STORE = "key-value"


class Apps:
    """The manifests on the log, read again every few seconds and when one is missing."""

    def __init__(self, log: Log) -> None:
        self._manifests = Manifests(log)
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._all: dict[str, Manifest] = {}

    def all(self, *, max_age: float = MAX_AGE_SECONDS) -> dict[str, Manifest]:
        """All manifests by app id, read at most `max_age` seconds ago."""
        with self._lock:
            if time.monotonic() - self._read_at > max_age:
                self._all = {one.app: one for one in self._manifests.all()}
                self._read_at = time.monotonic()
            return self._all

    def of(self, app: str | None) -> list[Manifest]:
        """The manifest of one app, or of all. Raises ConfigError `never-started` for an unknown one."""
        found = self.all()
        if app is None:
            return list(found.values())
        if app not in found:
            found = self.all(max_age=MAX_AGE_AFTER_MISS_SECONDS)
        if app not in found:
            raise ConfigError("never-started", f"app {app!r} never ran on this log", "check its id")
        return [found[app]]

    def gate(self, name: str, app: str | None) -> Manifest:
        """The app that has this gate."""
        return self._only("gate", name, app)

    def model(self, name: str, app: str | None) -> Manifest:
        """The app that has this model."""
        return self._only("model", name, app)

    def store(self, name: str, app: str | None) -> tuple[Manifest, StoreEntry]:
        """The app that has this store, and the store's entry in the manifest."""
        found = self._only("store", name, app)
        return found, found.stores[name]

    def _only(self, what: str, name: str, app: str | None) -> Manifest:
        found = [one for one in self.of(app) if name in getattr(one, f"{what}s")]
        if not found:
            self.all(max_age=MAX_AGE_AFTER_MISS_SECONDS)
            found = [one for one in self.of(app) if name in getattr(one, f"{what}s")]
        if not found:
            known = sorted({one for manifest in self.all().values() for one in getattr(manifest, f"{what}s")})
            raise ConfigError(
                f"no-such-{what}",
                f"no {what} on this log is called {name!r}",
                f"there is: {', '.join(known)}",
            )
        if len(found) > 1:
            apps = ", ".join(one.app for one in found)
            raise ConfigError("which-app", f"more than one app has a {what} {name!r}", f"add ?app=: {apps}")
        return found[0]


@dataclass(slots=True)
class Serving:
    """The shared parts of one server."""

    log: Log
    clock: Clock
    replicas: Replicas
    streams: Streams
    tokens: Tokens | None = None
    tickets: Tickets = field(default_factory=Tickets)
    idempotent_calls: IdempotentCalls = field(default_factory=IdempotentCalls)
    model_streams: int = 5_000
    """The limit of open model streams."""
    hub: Hub = field(init=False)
    grants: Grants | None = field(init=False)
    """None without tokens: then everybody may read everything."""
    outcomes: ModelOutcomes = field(init=False)
    apps: Apps = field(init=False)
    followers: AppFollowers = field(init=False)
    reports: AppReports = field(init=False)
    sampler: Sampler = field(init=False)
    tabs: Tabs = field(default_factory=Tabs)
    upgrade_rows: UpgradeRows = field(init=False)

    def __post_init__(self) -> None:
        self.grants = None if self.tokens is None else Grants(self.tokens, self.clock)
        self.hub = Hub(self.log, self.replicas, self.clock.now, self.model_streams)
        self.outcomes = ModelOutcomes(self.replicas)
        self.apps = Apps(self.log)
        self.upgrade_rows = UpgradeRows(self.log)
        self.followers = AppFollowers(self.log, self.clock)
        self.reports = AppReports(self.log, self.followers)
        self.sampler = Sampler(Summary(self).sample, self.clock)

    @contextmanager
    def gate(
        self,
        manifest: Manifest,
        name: str,
        at_least: Mapping[TopicPartition, int],
        *,
        held: bool = False,
        history: bool = False,
        seconds: float = WAIT_SECONDS,
    ) -> Iterator[tuple[GateQuery, ReplicaSnapshots]]:
        """Wait for `at_least` and yield a gate with snapshots of its topics; `held` and `history` add those
        of held events and of audit records."""
        of = Changelogs.of(manifest, name)
        topics = dict.fromkeys((of.status, of.index, *((of.held,) if held else ())), GATE_STORE)
        if history:
            topics[manifest.gates[name].audit] = HISTORY
        with self.replicas.snapshots(topics, at_least, seconds) as snapshots:
            yield GateQuery(self.log, manifest, name, self.clock, snapshots), snapshots

    def formats(self) -> dict[str, TopicFormat]:
        """How apps declared the keys and values of topics."""
        return topic_formats(self.apps.all().values())

    def allows(self, caller: Caller) -> bool:
        """Whether the token of a caller still exists: what outlives a request checks it again."""
        return self.tokens is None or self.tokens.of_hash(caller.token) is not None

    def end(self) -> None:
        """End the streams and wake waiting calls, which respond with `server-ends`."""
        self.streams.ending.set()
        self.sampler.end()
        self.hub.end()
        self.outcomes.end()
        self.replicas.end()
        self.followers.end()

    def close(self) -> None:
        self.streams.close()
        self.sampler.end()
        self.hub.close()
        self.outcomes.end()
        self.replicas.close()
        self.outcomes.close()
        self.followers.close()
        self.sampler.close()


async def serving(request: Request) -> Serving:
    """The dependency through which routes get the shared parts."""
    found: Any = request.app.state.serving
    assert isinstance(found, Serving)  # noqa: S101 - set by make_app
    return found
