"""A server on the log of a folder, killed when it reaches a point: `python killed_server.py FOLDER POINT`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tidegate.config.config import load_config
from tidegate.log.faultpoints import installed
from tidegate.server.serve import prepared
from tidegate.server.settings import server_settings


def main(folder: str, deadly: str) -> None:
    def kill(point: str) -> None:
        if point == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    def started(url: str) -> None:
        sys.stdout.write(f"{url}\n")
        sys.stdout.flush()

    config = load_config({"log": "sqlite:///log.db"}, environ={}, folder=Path(folder))
    settings = server_settings({"port": 0}, {})
    with prepared(config, settings, started) as server, installed(kill):
        server.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
