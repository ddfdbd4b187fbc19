"""An app in two versions, each a module of its own that executors can import."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidegate.config.config import Config, load_config

PARTITIONS = 2
WORD_LIST = ["ab", "cd", "efgh", "ijkl"]


@contextmanager
def two_versions(text: str, prefix: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    """Write `PREFIX_1` and `PREFIX_2` from a text with the fields `prefix` and `version`."""
    modules = {version: f"{prefix}_{version}" for version in (1, 2)}
    for version, name in modules.items():
        (folder / f"{name}.py").write_text(text.format(prefix=prefix, version=version))
    monkeypatch.syspath_prepend(str(folder))
    settings = {"log": "sqlite:///log.db", "partitions": PARTITIONS}
    yield load_config(settings, environ={}, folder=folder)
    for name in modules.values():
        sys.modules.pop(name, None)
