"""The line that an error names is the user's own."""

from __future__ import annotations

import inspect

import pytest

from tidegate.errors import TidegateError
from tidegate.serde.plain import PLAIN
from tidegate.text.user_place import user_place


def test_an_error_raised_inside_tidegate_names_the_line_that_called_it() -> None:
    with pytest.raises(TidegateError) as raised:
        PLAIN[int].decode(b"too short")
    place = user_place(raised.value)
    line = inspect.getsourcelines(test_an_error_raised_inside_tidegate_names_the_line_that_called_it)[1]
    assert place == f"test_user_place.py:{line + 2}"
