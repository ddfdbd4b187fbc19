"""Names that no model may have: a model is served under its name, beside the server's own paths."""

from __future__ import annotations

RESERVED = frozenset(
    (
        *("apps", "client.js", "docs", "events", "favicon.ico", "gates", "grants", "health", "live", "me"),
        *("metrics", "openapi.json", "redoc", "replicas", "status", "stores", "streams", "summary", "tasks"),
        *("tickets", "tokens", "topics", "topology", "ui", "upgrades"),
    )
)
"""The first parts of the server's paths."""
