"""tidegate itself, measured like its peers: in processes of its own, from outside."""

from __future__ import annotations

from benchmarks.peers.tidegate.driver import Tidegate

__all__ = ["Tidegate"]
