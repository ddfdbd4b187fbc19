"""The order for a slot's job: plain data, since it goes to another process or host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tidegate.log.location import LogLocation
from tidegate.runtime.replay import Replay


class SlotOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One start of one slot's job."""

    app: str
    """Where to import it: `module:name`."""
    app_id: str
    settings: dict[str, Any]
    """The user's settings as the driver has them."""
    registry: dict[str, Any] = {}
    """How to reach the schema registry; empty: as the executor's environment configures it."""
    fingerprint: str
    """The fingerprint of the package that holds the app."""
    log: LogLocation
    folder: str
    """The folder that relative state paths start from."""
    state_dir: str
    state_budget_bytes: int | None = None
    """How many bytes the app's state may take on a host."""
    generation: int = 1
    epoch: int
    slot: int
    attempt: int
    writer: str
    commit_interval_ms: int
    on_error: str = "stop"
    origin_headers: bool = False
    """Whether the records of sinks carry their origin."""
    pinned: dict[str, dict[int, int]] | None = None
    """Ends of the source topics to stop at, or None to run until stopped."""
    replay: Replay | None = None
    """The bounds of a replay; None to run live."""
    tasks: list[str] = []
    """The tasks of the slot as far as they are planned; for display only."""
    paths: list[str] = []
    """Folders to import from, on the driver's own host."""
    roots: list[str] = []
    """Folders that the driver imports the project from: paths below them are the same code on any host."""

    def __repr__(self) -> str:
        """Leaves out the settings: they may be secrets."""
        return f"SlotOrder({self.app!r}, slot={self.slot}, epoch={self.epoch}, attempt={self.attempt})"

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self, enc_hook=str)

    @staticmethod
    def decode(data: bytes) -> SlotOrder:
        return _order.decode(data)


def _path(kind: type, value: str) -> Path:  # noqa: ARG001 - the only type that needs help
    return Path(value)


_order = msgspec.msgpack.Decoder(SlotOrder, dec_hook=_path)
