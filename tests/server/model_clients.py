"""Clients of a model that connect, drop, change the server and come back, and note each version they get."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from random import Random
from typing import cast

from tests.server.model_sessions import OF_TIDEGATE, Held, Session

from tidegate.client import Version
from tidegate.models.canonical import digest

LAST_SECONDS = 60.0
"""How long a client may take to see the last version."""


@dataclass(slots=True)
class Counts:
    """What happened to all clients together."""

    killed: list[tuple[str, float]] = field(default_factory=list)
    """The URL of a server that was killed, and when."""
    sessions: Counter[str] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    patches: Counter[str] = field(default_factory=Counter)
    survived: Counter[str] = field(default_factory=Counter)
    """Sessions that went on after their server was killed. All of these by the kind of the client."""
    seen: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """The digests of the states that clients held under an id and a token."""
    resets: list[str] = field(default_factory=list)
    """Versions that replaced the state of a client that held a version of the same life."""

    def report(self) -> str:
        lines = [
            f"{kind}: {self.sessions[kind]} sessions, {self.survived[kind]} survived a kill of their server, "
            f"{self.versions[kind]:,} versions, {self.patches[kind]:,} by patches"
            for kind in self.sessions
        ]
        return "\n".join([*lines, f"{len(self.killed)} kills, {len(self.seen):,} versions compared"])


class FleetClient:
    """One client of one id."""

    def __init__(
        self, id: str, servers: Sequence[str], counts: Counts, seed: int, kind: str, session: Session
    ) -> None:
        self._id = id
        self._servers = servers
        self._counts = counts
        self._random = Random(seed)
        self._kind = kind
        self._session = session
        reconnects = kind in OF_TIDEGATE
        self._longest = 6.0 if reconnects else 2.0
        """Seconds of a session."""
        self._chance_to_leave = 0.03 if reconnects else 0.2
        """After each version: so also right after one that other servers may not have read yet."""
        self.held = Held()
        self._earlier: list[Held] = []

    async def run(self, last: asyncio.Future[str]) -> None:
        """Follow in many sessions until the last version is known; then until it was seen."""
        deadline: float | None = None
        while not (last.done() and self.held.token == last.result()):
            if last.done():
                deadline = deadline or time.monotonic() + LAST_SECONDS
                assert time.monotonic() < deadline, f"{self._kind} {self._id}: still {self.held.token}"
            elif self._earlier and self._random.random() < 0.3:
                self.held = self._random.choice(self._earlier)  # comes back after a long time
            try:
                async with asyncio.timeout(self._random.uniform(0.1, self._longest)):
                    await self._follow(self._random.choice(self._servers), last)
            except (TimeoutError, OSError, EOFError):
                await asyncio.sleep(self._random.uniform(0.0, 0.2))

    async def _follow(self, url: str, last: asyncio.Future[str]) -> None:
        self._counts.sessions[self._kind] += 1
        began, is_first, is_survivor = time.monotonic(), True, False
        versions = cast("AsyncGenerator[Version]", self._session(url, self._id, self.held))
        async with aclosing(versions):
            async for version in versions:
                self._note(version, is_first=is_first)
                if not is_survivor and not is_first and self._was_killed(url, began):
                    is_survivor = True
                    self._counts.survived[self._kind] += 1
                is_first = False
                if self._random.random() < self._chance_to_leave or (
                    last.done() and last.result() == version.token
                ):
                    return

    def _was_killed(self, url: str, since: float) -> bool:
        return any(killed == url and at > since for killed, at in self._counts.killed)

    def _note(self, version: Version, *, is_first: bool) -> None:
        counts, before = self._counts, self.held
        assert version.token is not None
        counts.versions[self._kind] += 1
        counts.patches[self._kind] += version.kind == "patch"
        if before.token is not None:
            same_life = _number(before.token, 0) == _number(version.token, 0)
            if same_life and version.kind == "state":
                counts.resets.append(f"{self._kind} {self._id}: {before.token} -> {version.token}")
            is_new = _number(version.token, 1) > _number(before.token, 1)
            assert is_new or (is_first and version.token == before.token), (
                f"{before.token} -> {version.token}"
            )
        if not version.gone:  # it does not exist yet
            counts.seen.setdefault((self._id, version.token), set()).add(digest(version.state))
        self.held = Held(version.token, version.state)
        if self._random.random() < 0.2:
            self._earlier.append(self.held)


def _number(token: str, part: int) -> int:
    """The life or the sequence in a token."""
    return int(token.split("-")[part])
