"""The blocks of the documents that no test runs: page, reason as the page states it, how many."""

from __future__ import annotations

NOT_RUN: dict[str, dict[str, int]] = {
    "CONTRIBUTING.md": {"these lines run the suite itself": 1},
    "docs/kafka.md": {"to be made runnable": 4},
    "docs/running.md": {"to be made runnable": 4},
    "docs/server.md": {"to be made runnable": 2},
    "docs/state.md": {"to be made runnable": 1},
    "docs/testing.md": {"to be made runnable": 1},
    "docs/tutorial.md": {"shows the versions of the reader's machine": 1},
}
