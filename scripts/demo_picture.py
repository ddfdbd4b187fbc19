"""Draw the screen of the demo as docs/images/demo.svg: run the real demo, take it while a customer waits.

.venv/bin/python scripts/demo_picture.py
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
from rich.console import Console

from tidegate.cli.demo.screen import rendered
from tidegate.cli.demo.watch import Snapshot

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "demo.svg"
SECONDS = "20"
COLUMNS = 80


def snapshots() -> list[Snapshot]:
    """What the demo showed, from its start to its end."""
    command = [sys.executable, "-m", "tidegate", "demo", "--json", "--seconds", SECONDS]
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    return [msgspec.convert(one, Snapshot) for one in events if one.get("event") == "numbers"]


def main() -> None:
    waiting = [one for one in snapshots() if one.held]
    screen = max(waiting, key=lambda one: one.held)
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, highlight=False)
        console.print(rendered(screen))
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    svg = console.export_svg(title="tidegate demo")
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))  # no fonts from elsewhere
    print(f"{PICTURE}: {screen.held} orders wait")


if __name__ == "__main__":
    main()
