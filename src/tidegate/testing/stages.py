"""DataFrame stages of an app in the test driver: they run on a session that the test passes."""

from __future__ import annotations

from functools import partial
from typing import Any

from tidegate.errors import ConfigError
from tidegate.topology.graph import Topology
from tidegate.upgrade.runners import OpenStages, no_session


def check_session(topology: Topology, spark: Any) -> None:
    """Raise ConfigError `no-session` for an app with stages if there is no session."""
    if topology.stages() and spark is None:
        raise ConfigError(
            "no-session",
            f"app {topology.app!r} has DataFrame stages",
            "pass a session: Driver(app, spark=...)",
        )


def stages_on(spark: Any) -> OpenStages:
    """Return what opens the stages of a run on a session."""
    if spark is None:
        return no_session
    from tidegate.spark.stages import open_stages  # the only place that needs Spark

    return partial(open_stages, spark)
