"""Every code in docs/schemas.md is one that is raised. tests/docs runs its examples."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "schemas.md").read_text()
SERDES = ROOT / "src" / "tidegate" / "serde"


def test_the_page_names_every_error_of_the_registry_and_no_other() -> None:
    source = "".join(
        (SERDES / name).read_text() for name in ("registry.py", "current_registry.py", "framed.py")
    )
    raised = set(re.findall(r'RegistryError\(\s*"([a-z-]+)"', source))
    raised |= {"not-registered", "unknown-schema", "no-magic-byte", "incompatible-schema"}
    reported = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", PAGE.partition("## Errors")[2]))
    assert raised <= reported
    known = raised | {"missing-extra", "wrong-type", "dead-letter"}
    assert reported <= known
