"""Ids of models, as they come in paths and bodies."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote, unquote_to_bytes

from fastapi import Depends, Path

from tidegate.models.formats import LONGEST_ID
from tidegate.server.errors import RequestError


def checked_id(id: str) -> str:
    """Return the id. Raises RequestError `bad-id` unless it has 1 to 512 bytes of UTF-8 and no NUL."""
    try:
        size = len(id.encode())
    except UnicodeEncodeError:
        raise _bad("an id with half of a surrogate pair") from None
    if not 0 < size <= LONGEST_ID:
        raise _bad(f"an id of {size:,} bytes")
    if "\0" in id:
        raise _bad("an id with NUL")
    return id


def model_name(model: Annotated[str, Path(description="The model.")]) -> str:
    return unquote(model)


def model_id(
    id: Annotated[str, Path(description="The id, with slashes and other characters encoded as %XX.")],
) -> str:
    try:
        return checked_id(unquote_to_bytes(id).decode())
    except UnicodeDecodeError:
        raise _bad("an id that is not UTF-8") from None


ModelName = Annotated[str, Depends(model_name)]
ModelId = Annotated[str, Depends(model_id)]


def _bad(what: str) -> RequestError:
    return RequestError("bad-id", what, f"use 1 to {LONGEST_ID} bytes of UTF-8 without NUL")
