"""tests/models/vectors.json holds for Python and for JavaScript, and is what the present code makes."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from scripts import make_model_vectors
from tests.client import node

from tidegate.models.canonical import canonical, digest
from tidegate.models.patch import apply

VECTORS: dict[str, list[dict[str, Any]]] = msgspec.json.decode(make_model_vectors.FILE.read_bytes())


def test_the_vectors_are_what_since_apply_and_digest_make_now() -> None:
    """Else: python scripts/make_model_vectors.py, and look at what has changed."""
    assert make_model_vectors.encoded() == make_model_vectors.FILE.read_bytes()


def test_the_vectors_hold_in_python() -> None:
    for one in VECTORS["canonical"]:
        value = msgspec.json.decode(one["json"])
        assert canonical(value).decode() == one["canonical"]
        assert digest(value) == one["digest"]
    for one in [*VECTORS["patches"], *VECTORS["histories"]]:
        before = copy.deepcopy(one["old"])
        found = apply(one["old"], one["patch"])
        assert canonical(found) == canonical(one["new"])
        assert digest(found) == one["digest"]
        assert one["old"] == before
    for one in VECTORS["refused"]:
        with pytest.raises(ValueError, match="patch"):
            apply(one["old"], one["patch"])


def test_the_vectors_hold_in_javascript() -> None:
    found = node.run("vectors.mjs", str(make_model_vectors.FILE))
    assert found["wrong"] == []
    assert found["checked"] > 4 * len(VECTORS["histories"])


def test_the_vectors_have_what_is_hard() -> None:
    text = make_model_vectors.FILE.read_text()
    for hard in ('"__proto__":', '"constructor":', '"toString":', "1e21", "1e-7", "-0.0", "9007199254740991"):
        assert hard in text, hard
    assert {name for one in VECTORS["histories"] for name in operations(one["patch"])} == set("=-*#n+")


def operations(patch: dict[str, Any]) -> set[str]:
    found = set(patch)
    below = [*patch.get("*", {}).values(), *(part for _, part in patch.get("#", []))]
    return found.union(*map(operations, below))
