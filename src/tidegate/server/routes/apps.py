"""The apps on the log: their topologies, reports, tasks and metrics."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response

from tidegate.errors import LogError
from tidegate.server.app_events import AppEvent
from tidegate.server.app_follower import AppState
from tidegate.server.guard import needs
from tidegate.server.json_response import JsonResponse
from tidegate.server.metrics import MEDIA_TYPE, Family, as_text, families, slots_of
from tidegate.server.parameters import App, AppName, Limit, Server
from tidegate.server.tokens import Scope
from tidegate.server.topology_graph import topology_graph

router = APIRouter(tags=["apps"])


@router.get("/topology")
@needs(Scope.READ)
def show_topology(server: Server, app: App = None) -> JsonResponse:
    """The topologies of the apps in their newest generations."""
    return JsonResponse({"apps": [_without_settings(one) for one in server.apps.of(app)]})


@router.get("/apps")
@needs(Scope.READ)
def show_apps(server: Server) -> JsonResponse:
    """Report on all apps: what `tidegate status` shows."""
    return JsonResponse({"apps": [server.reports.of(manifest) for manifest in server.apps.of(None)]})


@router.get("/apps/{app}")
@needs(Scope.READ)
def show_app(server: Server, app: AppName) -> JsonResponse:
    """Report on one app."""
    [manifest] = server.apps.of(app)
    return JsonResponse(server.reports.of(manifest))


@router.get("/apps/{app}/topology")
@needs(Scope.READ)
def show_graph(server: Server, app: AppName) -> JsonResponse:
    """The topology of one app as a graph: nodes with source lines, edges, topics, stores, gates, tasks."""
    [manifest] = server.apps.of(app)
    return JsonResponse(topology_graph(manifest))


@router.get("/tasks")
@needs(Scope.READ)
def show_tasks(server: Server, app: App = None) -> JsonResponse:
    """Which slot runs which stream tasks, on which host, with which lag; and the newest failure."""
    return JsonResponse(
        {"apps": [_tasks(server.followers.state(manifest)) for manifest in server.apps.of(app)]}
    )


@router.get("/events")
@needs(Scope.READ)
def show_events(
    server: Server,
    app: App = None,
    kind: Annotated[str | None, Query(description="Only events of this kind, such as `failure`.")] = None,
    limit: Limit = 100,
) -> JsonResponse:
    """What happened lately: failures, warnings, moves of tasks, rebuilt stores. The newest are last."""
    events: list[AppEvent] = []
    unreadable: dict[str, str] = {}
    for manifest in server.apps.of(app):
        try:
            events += server.followers.state(manifest, with_lag=False).events
        except LogError as error:
            unreadable[manifest.app] = error.code
    found = sorted((one for one in events if kind in (None, one.kind)), key=lambda one: one.at)
    return JsonResponse({"events": found[-limit:], "unreadable": unreadable})


@router.get("/metrics")
@needs(Scope.READ)
def show_metrics(server: Server) -> Response:
    """Metrics for Prometheus."""
    states: list[AppState] = []
    missing = Family("tidegate_server_app_troubles", "gauge", "Apps whose topics this server cannot read.")
    for name, manifest in server.apps.all().items():
        try:
            states.append(server.followers.state(manifest))
        except LogError as error:
            missing.samples.append(({"app": name, "code": error.code}, 1))
    streams = Family("tidegate_server_streams", "gauge", "Streams that are open.")
    streams.samples.append(({}, server.streams.count))
    models = Family("tidegate_server_model_streams", "gauge", "Model streams that are open.")
    models.samples.append(({}, server.hub.count))
    troubles = Family("tidegate_server_replica_troubles", "gauge", "Replicas that make no progress.")
    troubles.samples.append(({}, len(server.replicas.troubles())))
    found = families(states, server.clock.now())
    return Response(as_text([*found, missing, streams, models, troubles]), media_type=MEDIA_TYPE)


def _tasks(app: AppState) -> dict[str, object]:
    tasks = {slot.slot: [str(task) for task in slot.tasks] for slot in app.plan.slots}
    hosts = {slot.slot: slot.host for slot in app.plan.slots}
    lag = app.lag_by_slot()
    slots = [
        {
            "slot": number,
            "state": slot.state(app.now),
            "host": slot.host or hosts.get(number, ""),
            "pid": slot.pid,
            "tasks": tasks.get(number, []),
            "lag": lag.get(number, 0),
            "restarts": app.restarts(number),
            "numbers": None if slot.numbers is None else msgspec.to_builtins(slot.numbers),
        }
        for number, slot in slots_of(app).items()
    ]
    return {
        "app": app.app,
        "epoch": app.plan.epoch,
        "lag": sum(lag.values()),
        "slots": slots,
        "failures": dict(app.statuses.failures),
        "warnings": list(app.statuses.warnings),
        "positions": app.lags,
    }


def _without_settings(manifest: msgspec.Struct) -> dict[str, object]:
    """Hide settings: they may be confidential."""
    shown: dict[str, object] = msgspec.to_builtins(manifest)
    del shown["settings"]
    return shown
