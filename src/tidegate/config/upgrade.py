"""The section [upgrade]: what an app may do by itself when it starts with changed code.

    upgrade = "ask"                          TIDEGATE_UPGRADE=ask

    [upgrade]
    mode = "auto"                            TIDEGATE_UPGRADE__MODE=auto
    max_removed = 0.2                        TIDEGATE_UPGRADE__MAX_REMOVED=0.2
    allow_removals = ["customer-totals"]     TIDEGATE_UPGRADE__ALLOW_REMOVALS=customer-totals,other

A text in place of the section is its `mode`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

EXAMPLE = 'upgrade = "auto" or "ask", or a section [upgrade] with mode, max_removed and allow_removals'


class UpgradeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an upgrade may do without being asked."""

    mode: Literal["auto", "ask"] = "auto"
    """Whether `tidegate run` upgrades a changed app by itself. With "ask" only `tidegate upgrade` does."""
    max_removed: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1
    """The share of the rows of a table topic that may be removed without consent."""
    allow_removals: list[str] = []
    """Table topics whose rows may be removed, however many."""


def checked_upgrade(value: Any, *, text: bool) -> dict[str, Any]:
    """Return what one origin sets, as a dict. Raises msgspec.ValidationError. `text` allows numbers, and
    names separated by commas, as text."""
    section = {"mode": value} if isinstance(value, str) else value
    if text and isinstance(section, Mapping) and isinstance(section.get("allow_removals"), str):
        parts = [name.strip() for name in section["allow_removals"].split(",")]
        section = {**section, "allow_removals": [name for name in parts if name]}
    found = msgspec.convert(section, UpgradeSettings, strict=not text)
    return {name: getattr(found, name) for name in section}
