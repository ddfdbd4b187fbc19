"""The address of the dashboard, as `tidegate serve` and the demo print it."""

from __future__ import annotations


def dashboard_of(url: str) -> str:
    """Return the address of the dashboard of a server. The slash at its end saves a redirect."""
    return f"{url}/ui/"
