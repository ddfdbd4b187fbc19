"""`python -m tidegate.testing.broker`: rewrite `jars.sha256` after a change of `pom.xml`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tidegate.testing.broker.jars import HASHES, expected, fetch, hashes_of


def main() -> None:
    """Fetch what `pom.xml` names, write the hashes, and print what changed."""
    before = expected() if HASHES.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        fetch(Path(folder))
        after = hashes_of(Path(folder))
    HASHES.write_text("".join(f"{digest}  {name}\n" for name, digest in after.items()))
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            sys.stdout.write(f"{before.get(name, 'new')[:12]} -> {after.get(name, 'gone')[:12]}  {name}\n")


if __name__ == "__main__":
    main()
