"""An edit that changes an output changes the fingerprint, whatever the project looks like."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fingerprint.folder import OnlyBelow, imported, write
from tests.fingerprint.random_projects import SAMPLES, Files, edited, project
from tests.repetitions import repeated

from tidegate.fingerprint import Fingerprints


def observed(folder: Path, files: Files) -> tuple[str, list[Any]] | None:
    """Return the digest of `main.root` and its outputs; None if the project cannot be imported."""
    write(folder, files)
    with imported(folder) as load:
        try:
            root = load("main").root
        except Exception:  # noqa: BLE001 - a broken edit
            return None
        digest = Fingerprints(project=OnlyBelow(folder)).of(root).digest
        return digest, [_output(root, sample) for sample in SAMPLES]


def _output(function: Any, sample: int) -> Any:
    try:
        return function(sample)
    except Exception as error:  # noqa: BLE001 - what is raised is an output, too
        return type(error).__name__


@pytest.mark.soak
@settings(
    max_examples=repeated(200, soak=5_000),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(seed=st.integers(0, 2**40))
def test_an_edit_that_changes_an_output_changes_the_fingerprint(seed: int) -> None:
    rng = random.Random(seed)
    files = project(rng)
    with tempfile.TemporaryDirectory() as folder:
        before = observed(Path(folder) / "before", files)
        after = observed(Path(folder) / "after", edited(rng, files))
    if before is not None and after is not None and before[1] != after[1]:
        assert before[0] != after[0], f"outputs {before[1]} and {after[1]} have one digest"
