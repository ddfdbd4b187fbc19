"""Patches: what they refuse, and what they share."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.models.patch import apply


@pytest.mark.parametrize(
    ("value", "patch"),
    [
        ([], {"*": {"a": {"=": 1}}}),
        ({}, {"+": [1]}),
        ({}, {"*": {"a": {"*": {}}}}),
        ([1], {"#": [[1, {"=": 2}]]}),
        ([1], {"#": [[-1, {"=": 2}]]}),
        ([1], {"n": 2}),
        ([1], {"n": -1}),
        (1, {"?": 1}),
    ],
)
def test_a_patch_that_does_not_fit_is_refused(value: Any, patch: Any) -> None:
    with pytest.raises(ValueError, match=r"patch"):
        apply(value, patch)


def test_what_does_not_change_is_shared_and_the_old_value_stays() -> None:
    old: Any = {"a": {"x": 1}, "b": [{"y": 1}, {"z": 1}]}
    new: Any = apply(old, {"*": {"b": {"#": [[1, {"*": {"z": {"=": 2}}}]], "+": [3]}}})
    assert old == {"a": {"x": 1}, "b": [{"y": 1}, {"z": 1}]}
    assert new == {"a": {"x": 1}, "b": [{"y": 1}, {"z": 2}, 3]}
    assert new["a"] is old["a"]
    assert new["b"][0] is old["b"][0]
