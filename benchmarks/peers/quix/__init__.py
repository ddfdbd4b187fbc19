"""Quix Streams, in a virtual environment of its own: its dependencies do not enter ours."""

from __future__ import annotations

from benchmarks.peers.quix.driver import Quix

__all__ = ["Quix"]
