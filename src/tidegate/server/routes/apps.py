"""The apps on the log: their topologies, their tasks, their numbers."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from tidegate.runtime.control import read_control
from tidegate.runtime.lag import lag_of
from tidegate.runtime.takeover import ROLE
from tidegate.server.answers import Answer
from tidegate.server.asked import App, Server
from tidegate.server.guard import needs
from tidegate.server.metrics import MEDIA_TYPE, Family, as_text, families, recent
from tidegate.server.tokens import Scope

router = APIRouter(tags=["apps"])


@router.get("/topology")
@needs(Scope.READ)
def show_topology(server: Server, app: App = None) -> Answer:
    """The apps as their newest generations are."""
    return Answer({"apps": [_without_settings(one) for one in server.apps.of(app)]})


@router.get("/tasks")
@needs(Scope.READ)
def show_tasks(server: Server, app: App = None) -> Answer:
    """Which slot runs which stream tasks, where, and what they have before them."""
    return Answer({"apps": [_tasks(server, manifest.app) for manifest in server.apps.of(app)]})


@router.get("/metrics")
@needs(Scope.READ)
def show_metrics(server: Server) -> Response:
    """Numbers for Prometheus."""
    found = families(server.log, server.apps.all(), server.clock)
    streams = Family("tidegate_server_streams", "gauge", "Streams that are open.")
    streams.samples.append(({}, server.streams.count))
    troubles = Family("tidegate_server_replica_troubles", "gauge", "Replicas that do not get on.")
    troubles.samples.append(({}, len(server.replicas.troubles())))
    return Response(as_text([*found, streams, troubles]), media_type=MEDIA_TYPE)


def _tasks(server: Server, app: str) -> dict[str, object]:
    plan = read_control(server.log, app).plan(ROLE)
    numbers, landings = recent(server.log, app, server.clock.now())
    lags = lag_of(server.log, app)
    slots = [
        {
            "slot": slot.slot,
            "host": landings[slot.slot].host if slot.slot in landings else slot.host,
            "tasks": [str(task) for task in slot.tasks],
            "numbers": msgspec.to_builtins(numbers[slot.slot]) if slot.slot in numbers else None,
        }
        for slot in plan.slots
    ]
    return {
        "app": app,
        "epoch": plan.epoch,
        "lag": sum(one.lag for one in lags),
        "slots": slots,
        "positions": lags,
    }


def _without_settings(manifest: msgspec.Struct) -> dict[str, object]:
    """Settings may say more than readers should know."""
    told: dict[str, object] = msgspec.to_builtins(manifest)
    del told["settings"]
    return told
