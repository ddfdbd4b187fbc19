"""The ASGI application: routes behind the guard."""

from __future__ import annotations

import functools
from importlib.metadata import version

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.routing import BaseRoute

from tidegate.errors import TidegateError
from tidegate.server.errors import RequestError, error_response
from tidegate.server.guard import Guard, permitted
from tidegate.server.model_ids import model_path
from tidegate.server.parameters import no_other_queries
from tidegate.server.routes import (
    apps,
    audit,
    client_script,
    commands,
    dashboard,
    dead_letters,
    gates,
    grants,
    health,
    model_requests,
    model_streams,
    models,
    records,
    stores,
    summary,
    topics,
    upgrades,
)
from tidegate.server.serving import Serving
from tidegate.server.settings import ServerSettings

ROUTERS = (
    gates.router,
    commands.router,
    stores.router,
    topics.router,
    records.router,
    apps.router,
    dead_letters.router,
    upgrades.router,
    health.router,
    grants.router,
    client_script.router,
    dashboard.router,
    summary.router,
    audit.router,
    model_streams.many,
    # Paths that begin with the name of a model.
    models.router,
    model_streams.router,
    model_requests.router,
)

CHECKS = [Depends(permitted), Depends(no_other_queries)]
"""Of each route, also of one that is added to an application later."""


def make_app(serving: Serving, settings: ServerSettings) -> FastAPI:
    """Build the application of one server. FastAPI's own pages are off: they would be public and load scripts
    from other hosts."""
    app = FastAPI(
        title="tidegate",
        version=version("tidegate"),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=CHECKS,
    )
    app.state.serving = serving
    app.router.routes.extend(_routes())
    app.add_exception_handler(TidegateError, _tidegate_error)
    app.add_exception_handler(RequestValidationError, _bad_request)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_middleware(
        Guard,
        settings=settings,
        tokens=serving.tokens,
        tickets=serving.tickets,
        grants=serving.grants,
    )
    if settings.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=[
                "Authorization",
                "Content-Type",
                "Idempotency-Key",
                "If-Match",
                "If-None-Match",
                "Last-Event-ID",
            ],
            expose_headers=["ETag", "Location"],
        )
    return app


@functools.cache
def _routes() -> list[BaseRoute]:
    """The routes of any server. FastAPI takes a tenth of a second to inspect their parameters."""
    found = APIRouter(dependencies=CHECKS)
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, APIRoute)  # noqa: S101 - created by the routers above
            # One by one: the guard looks for them in the router of the app.
            found.add_api_route(
                model_path(route.path), route.endpoint, methods=list(route.methods or []), tags=[*router.tags]
            )
    return found.routes


async def _tidegate_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, TidegateError)  # noqa: S101 - registered for it
    return error_response(error)


async def _bad_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return error_response(RequestError("bad-request", f"{where}: {first['msg']}"[:300], "see /openapi.json"))


async def _no_route(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    if error.status_code == 405:
        return error_response(
            RequestError("method-not-allowed", "this path does not support this method", "see /openapi.json")
        )
    if error.status_code == 404:
        return error_response(
            RequestError("no-such-path", "there is nothing at this path", "see /openapi.json")
        )
    return error_response(RequestError("bad-request", str(error.detail)[:200], "see /openapi.json"))
