"""Clients of models: they hold the state of an id, follow it live, and survive whatever servers do.

    with follow("http://127.0.0.1:8470", "workflows", "w1") as workflow:
        print(workflow.state, workflow.token)
        for state in workflow:
            ...

`afollow` is the same for asyncio. Both need the standard library and msgspec only.
"""

from __future__ import annotations

from typing import Any

from tidegate.client.asynchronous import AsyncModelClient
from tidegate.client.held import Version
from tidegate.client.requests import Bearer, Written
from tidegate.client.storage import FileStorage, Storage
from tidegate.client.sync import ModelClient
from tidegate.errors import ClientError

__all__ = [
    "AsyncModelClient",
    "ClientError",
    "FileStorage",
    "ModelClient",
    "Storage",
    "Version",
    "Written",
    "afollow",
    "follow",
]


def follow(url: str, model: str, id: str, *, grant: Bearer = None, **options: Any) -> ModelClient:
    """Follow an id from threads: `with follow(...) as client`. Options are those of ModelClient."""
    return ModelClient(url, model, id, bearer=grant, **options)


def afollow(url: str, model: str, id: str, *, grant: Bearer = None, **options: Any) -> AsyncModelClient:
    """Follow an id from asyncio: `async with afollow(...) as client`. Options as of AsyncModelClient."""
    return AsyncModelClient(url, model, id, bearer=grant, **options)
