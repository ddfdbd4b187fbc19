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
SQLITE = "sqlite:///log.db"


@contextmanager
def two_versions(text: str, prefix: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Config]:
    """Write `PREFIX_1` and `PREFIX_2` from a text with the fields `prefix` and `version`."""
    texts = [text.format(prefix=prefix, version=version) for version in (1, 2)]
    with written_versions(texts, prefix, folder, monkeypatch) as found:
        yield found


@contextmanager
def written_versions(
    texts: list[str],
    prefix: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    log: str = SQLITE,
    partitions: int = PARTITIONS,
    commit_interval_ms: int = 100,
) -> Iterator[Config]:
    """Write `PREFIX_1`, `PREFIX_2`, … with these texts, and yield settings for them."""
    modules = {f"{prefix}_{version}": text for version, text in enumerate(texts, 1)}
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    settings = {"log": log, "partitions": partitions, "commit_interval_ms": commit_interval_ms}
    yield load_config(settings, environ={}, folder=folder)
    for name in modules:
        sys.modules.pop(name, None)
