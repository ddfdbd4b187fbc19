"""The three clients behind one function: each scenario is played with all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from tests.client import node
from tests.client.scripted import ID

from tidegate.client import AsyncModelClient, ClientError, FileStorage, ModelClient, Version

KINDS = ("sync", "async", "typescript")


@dataclass(slots=True)
class Followed:
    """What a client has reported."""

    versions: list[Version] = field(default_factory=list)
    error: str | None = None
    calls: list[Any] = field(default_factory=list)
    """The results of writes, or their errors."""
    shared: list[list[str]] = field(default_factory=list)
    """For each version the keys whose value is the same object as in the version before."""

    @property
    def states(self) -> list[Any]:
        return [version.state for version in self.versions]


def follow(
    kind: str,
    url: str,
    count: int,
    *,
    model: str = "flows",
    calls: Sequence[tuple[Any, ...]] = (),
    file: Path | None = None,
    silence: float = 10.0,
    longest_wait: float = 0.001,
    **options: Any,
) -> Followed:
    """Follow an id for so many versions, or until there is an error; then call what is named."""
    if kind == "typescript":
        renamed = {"silence": silence * 1000, "longestWait": longest_wait * 1000, **options}
        if "bearer" in renamed:
            renamed["grant"] = renamed.pop("bearer")
        return _typescript(url, model, count, calls, file, renamed)
    storage = None if file is None else FileStorage(file)
    given = {"silence": silence, "longest_wait": longest_wait, "storage": storage, **options}
    if kind == "sync":
        return _sync(ModelClient(url, model, ID, **given), count, calls)
    return asyncio.run(_async(AsyncModelClient(url, model, ID, **given), count, calls))


def _sync(client: ModelClient, count: int, calls: Sequence[tuple[Any, ...]]) -> Followed:
    found = Followed()
    try:
        for version in islice(client.subscribe(), count):
            _add(found, version)
    except ClientError as error:
        found.error = error.code
    client.close()
    for name, *given in calls:
        try:
            found.calls.append(_written(getattr(client, name)(*given)))
        except ClientError as error:
            found.calls.append(_failed(error))
    return found


async def _async(client: AsyncModelClient, count: int, calls: Sequence[tuple[Any, ...]]) -> Followed:
    found = Followed()
    subscribed = client.subscribe()
    try:
        for _ in range(count):
            _add(found, await anext(subscribed))
    except ClientError as error:
        found.error = error.code
    client.close()
    for name, *arguments in calls:
        try:
            found.calls.append(_written(await getattr(client, name)(*arguments)))
        except ClientError as error:
            found.calls.append(_failed(error))
    return found


def _typescript(
    url: str,
    model: str,
    count: int,
    calls: Sequence[tuple[Any, ...]],
    file: Path | None,
    options: dict[str, Any],
) -> Followed:
    config: dict[str, Any] = {"url": url, "model": model, "id": ID, "count": count, "options": options}
    config["calls"] = list(calls)
    if file is not None:
        config["file"] = str(file)
    ran = node.FOLLOW.ask(config)
    assert not ran["polluted"]
    versions = [Version(one["token"], one["state"], one["gone"], one["kind"]) for one in ran["versions"]]
    return Followed(versions, ran["error"], ran["calls"], [one["shared"] for one in ran["versions"]])


def _add(found: Followed, version: Version) -> None:
    before = found.versions[-1].state if found.versions else None
    found.versions.append(version)
    is_pair = isinstance(before, dict) and isinstance(version.state, dict)
    found.shared.append(
        [
            key
            for key, value in (version.state.items() if is_pair else ())
            if isinstance(value, (dict, list)) and before.get(key) is value  # type: ignore[union-attr]
        ]
    )


def _written(written: Any) -> Any:
    return {"id": written.id, "token": written.token, "outcome": written.outcome}


def _failed(error: ClientError) -> Any:
    return {"code": error.code, "status": error.status, "token": error.token, "message": error.message}
