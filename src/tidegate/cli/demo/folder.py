"""The folder that the demo works in: the example, its tidegate.toml, its log and its state."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

import tidegate
from tidegate.config.config import FILE, Config, load_config
from tidegate.errors import ConfigError

EXAMPLE = "orders.py"
PARTITIONS = 4

_SETTINGS = """\
app = "orders:app"
log = {log}
partitions = {partitions}

[server]
port = 0  # any that is free
"""


def example() -> Path:
    """examples/orders/orders.py: inside of an installed package, else in the checkout."""
    package = Path(tidegate.__file__).parent
    for place in (package / "examples" / EXAMPLE, package.parents[1] / "examples" / "orders" / EXAMPLE):
        if place.is_file():
            return place
    raise ConfigError("no-example", f"{EXAMPLE} is neither in the package nor beside it", "install it anew")


def make_folder(folder: Path, log: str | None = None) -> Config:
    """Fill a folder and read its settings; without the URL of a log it has one of its own."""
    if (folder / FILE).exists():
        raise ConfigError(
            "folder-in-use", f"{folder / FILE} exists", "name another folder, or remove what is in this one"
        )
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(example(), folder / EXAMPLE)
    url = msgspec.json.encode(log or "sqlite:///.tidegate/log.db").decode()
    (folder / FILE).write_text(_SETTINGS.format(log=url, partitions=PARTITIONS))
    return load_config(environ={}, folder=folder)
