"""Whatever the app was, whatever was edited and sent, and wherever it was killed: an upgrade equals a fresh
run of the new version, and each event, admitted record and version of a model appears once."""

from __future__ import annotations

import pytest
from hypothesis import Phase, example, given, settings
from tests.repetitions import repeated
from tests.upgrade.random_apps import Pipeline, Spec
from tests.upgrade.random_edits import HISTORIES, VERSIONS
from tests.upgrade.trial import History, check_upgrade

COUNT, COUNT_BEHIND_GATE = (Spec((Pipeline("a", ("in",), gate=gate, end="count"),)) for gate in (False, True))


@pytest.mark.soak
@settings(
    max_examples=repeated(200, soak=5000),
    deadline=None,
    phases=[phase for phase in Phase if phase is not Phase.explain],  # explaining takes minutes
)
@example(  # the second attempt fills the admitted topic that the first one has created
    (COUNT, COUNT_BEHIND_GATE),
    History([([], [])], kills=[20, 96], between=[("in", "k0", 0, 0)], partitions=1),
)
@given(VERSIONS, HISTORIES)
def test_an_upgrade_equals_a_fresh_run(versions: tuple[Spec, Spec], history: History) -> None:
    check_upgrade(*versions, history)
