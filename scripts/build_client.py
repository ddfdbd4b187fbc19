"""Build clients/typescript into the one file that the server serves at /client.js: `make client`.

1 npm installs what package-lock.json names; 2 tsc checks the types; 3 esbuild makes one file. The same
sources make the same bytes.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from scripts.npm import ROOT, NpmProject

PROJECT = NpmProject(ROOT / "clients" / "typescript")
SERVED = ROOT / "src" / "tidegate" / "server" / "static" / "client.js"


def main() -> int:
    PROJECT.install()
    shutil.copyfile(built(PROJECT), SERVED)
    print(f"{SERVED.relative_to(ROOT)}: {SERVED.stat().st_size:,} bytes")
    return 0


def built(project: NpmProject) -> Path:
    """Steps 2 and 3. Returns the one file."""
    project.run("build")
    return project.folder / "dist" / "client.js"


if __name__ == "__main__":
    sys.exit(main())
