"""docs/reference/settings.md has everything that settings of an app can do."""

from __future__ import annotations

from tests.docs.reference import named_first, page, public

import tidegate
from tidegate import Secret, Settings

PAGE = page("settings")


def test_every_method_of_settings_and_secrets_is_on_the_page() -> None:
    methods = public(Settings) | public(Secret)
    assert methods == {"counted", "load", "of", "reveal"}
    assert {"counted", "load", "of"} <= named_first(PAGE)
    assert "`secret.reveal()`" in PAGE


def test_every_exported_name_about_settings_is_on_the_page() -> None:
    found = {name: getattr(tidegate, name) for name in tidegate.__all__}
    home = Settings.__module__
    exported = {name for name, one in found.items() if getattr(one, "__module__", "") == home}
    assert exported == {"Secret", "Settings", "operational"}
    assert {name for name in exported if name not in PAGE} == set()
