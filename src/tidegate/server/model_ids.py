"""Names and ids of models, as they come in paths and bodies."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import unquote, unquote_to_bytes

from fastapi import Depends, Path
from starlette.convertors import StringConvertor, register_url_convertor

from tidegate.models.formats import LONGEST_ID
from tidegate.models.reserved import RESERVED
from tidegate.server.errors import RequestError


class _NotReserved(StringConvertor):
    """Matches no first part of the server's own paths: those respond as if there were no models."""

    regex = rf"(?!(?:{'|'.join(map(re.escape, sorted(RESERVED)))})(?:/|$))[^/]+"


register_url_convertor("model", _NotReserved())


def model_path(path: str) -> str:
    """The path of a route, so that `{model}` does not match the server's own paths."""
    return path.replace("{model}", "{model:model}")


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


async def model_name(model: Annotated[str, Path(description="The model.")]) -> str:
    return unquote(model)


async def model_id(
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
