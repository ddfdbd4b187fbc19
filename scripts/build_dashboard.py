"""Build dashboard/ into the folder that the server serves under /ui/: `make dashboard`.

1 npm installs what package-lock.json names; 2 svelte-check checks the types; 3 Vite makes the files. The same
sources make the same bytes.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from scripts.npm import ROOT, NpmProject

PROJECT = NpmProject(ROOT / "dashboard")
SERVED = ROOT / "src" / "tidegate" / "server" / "ui"


def main() -> int:
    PROJECT.install()
    PROJECT.run("check")
    shutil.rmtree(SERVED, ignore_errors=True)
    shutil.copytree(built(PROJECT), SERVED)
    for path in files(SERVED):
        print(f"{(SERVED / path).relative_to(ROOT)}: {(SERVED / path).stat().st_size:,} bytes")
    return 0


def built(project: NpmProject) -> Path:
    """Step 3. Returns the folder of the files."""
    project.run("build")
    return project.folder / "dist"


def files(folder: Path) -> list[Path]:
    """The files in a folder, by their paths in it."""
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit(main())
