"""Responses as JSON, encoded by msgspec."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response


class JsonResponse(Response):
    """A response with any value that msgspec can encode."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """One line with a newline, so that a terminal shows its prompt on the next line."""
        return msgspec.json.encode(content) + b"\n"
