"""The line that an error names is the user's own."""

from __future__ import annotations

import inspect

import pytest

from tidegate.errors import TidegateError
from tidegate.serde.plain import PLAIN
from tidegate.text.user_code_location import user_code_location


def test_an_error_raised_inside_tidegate_names_the_line_that_called_it() -> None:
    with pytest.raises(TidegateError) as raised:
        PLAIN[int].decode(b"too short")
    place = user_code_location(raised.value)
    line = inspect.getsourcelines(test_an_error_raised_inside_tidegate_names_the_line_that_called_it)[1]
    assert place == f"test_user_code_location.py:{line + 2}"
