"""Upgrades: what changed, what it would do, and recalculation.

found = tidegate.upgrade.preview(app, spark=spark)
print(found.counts["customer-totals"])
found.frame(spark).show()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidegate.upgrade.previews import Preview

__all__ = ["preview"]


def preview(app: Any, *, spark: Any, **options: Any) -> Preview:
    """Return what this version of an app would change in its table topics and models, beside the live one,
    which goes on. Runs on the user's session. Options are `name` (`module:name` of the app, for executors),
    `config` and `slots`."""
    from tidegate.spark.recalculating import preview_on_spark  # Spark may not be installed

    return preview_on_spark(app, spark, **options)
