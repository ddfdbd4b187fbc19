"""Testing tools that are part of the product.

from tidegate.testing import Commit, Driver
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.testing.driver import Driver
    from tidegate.testing.faults import Commit
    from tidegate.testing.gates import GateView
    from tidegate.testing.laws import check_reducer
    from tidegate.testing.models import ModelView
    from tidegate.testing.pytest_plugin import DriverFactory
    from tidegate.testing.views import Outcome, StoreView

__all__ = [
    "Commit",
    "Driver",
    "DriverFactory",
    "GateView",
    "ModelView",
    "Outcome",
    "StoreView",
    "check_reducer",
]

_HOMES = {
    "Commit": "faults",
    "Driver": "driver",
    "DriverFactory": "pytest_plugin",
    "GateView": "gates",
    "ModelView": "models",
    "Outcome": "views",
    "StoreView": "views",
    "check_reducer": "laws",
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use: a pytest plugin that is not used costs nothing."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
