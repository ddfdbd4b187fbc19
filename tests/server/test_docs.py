"""What the server can do is written down."""

from __future__ import annotations

from pathlib import Path

from fastapi.routing import APIRoute

from tidegate.server.app import ROUTERS
from tidegate.server.settings import ServerSettings

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text()


def test_every_route_is_in_the_table() -> None:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    paths = {(method, route.path) for route in routes for method in route.methods or ()}
    assert len(paths) >= 20
    assert [one for one in sorted(paths) if f"| `{one[0]} {one[1]}` |" not in PAGE] == []
    methods = ("| `GET", "| `POST", "| `DELETE")
    reported = [line.split("`")[1] for line in PAGE.splitlines() if line.startswith(methods)]
    assert sorted(reported) == sorted(f"{method} {path}" for method, path in paths)


def test_every_setting_is_in_the_table() -> None:
    assert [name for name in ServerSettings.__struct_fields__ if f"`{name}`" not in PAGE] == []
