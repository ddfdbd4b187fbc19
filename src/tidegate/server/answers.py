"""Answers as JSON, by msgspec."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response


class Answer(Response):
    """Any value that msgspec knows."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """One line: whoever reads it in a terminal finds the prompt below it."""
        return msgspec.json.encode(content) + b"\n"
