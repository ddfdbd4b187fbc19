"""The fixture of the plugin, whether it is registered here or not."""

from __future__ import annotations

from tidegate.testing.pytest_plugin import driver

__all__ = ["driver"]
