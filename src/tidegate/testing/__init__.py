"""Testing tools that are part of the product.

from tidegate.testing import Commit, Driver
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.testing.driver import Driver
    from tidegate.testing.faults import Commit
    from tidegate.testing.gates import GateView
    from tidegate.testing.pytest_plugin import DriverFactory
    from tidegate.testing.views import Outcome, StoreView

__all__ = ["Commit", "Driver", "DriverFactory", "GateView", "Outcome", "StoreView"]

_HOMES = {
    "Commit": "faults",
    "Driver": "driver",
    "DriverFactory": "pytest_plugin",
    "GateView": "gates",
    "Outcome": "views",
    "StoreView": "views",
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use: a pytest plugin that is not used costs nothing."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
