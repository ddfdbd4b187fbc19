"""The folder of the demo: the example, its tidegate.toml, its log and its state."""

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
    """Find examples/orders/orders.py: in the installed package, or in the checkout."""
    package = Path(tidegate.__file__).parent
    for path in (package / "examples" / EXAMPLE, package.parents[1] / "examples" / "orders" / EXAMPLE):
        if path.is_file():
            return path
    raise ConfigError(
        "no-example", f"{EXAMPLE} is neither in the package nor beside it", "reinstall tidegate"
    )


def make_folder(folder: Path, log: str | None = None) -> Config:
    """Create the files of the demo and load its config. Without a URL, the log is in the folder."""
    if (folder / FILE).exists():
        raise ConfigError("folder-in-use", f"{folder / FILE} exists", "use another folder, or empty this one")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(example(), folder / EXAMPLE)
    url = msgspec.json.encode(log or "sqlite:///.tidegate/log.db").decode()
    (folder / FILE).write_text(_SETTINGS.format(log=url, partitions=PARTITIONS))
    return load_config(environ={}, folder=folder)
