"""The blocks of the documents that no test runs: page, reason as the page states it, how many."""

from __future__ import annotations

NOT_RUN: dict[str, dict[str, int]] = {
    "CONTRIBUTING.md": {"these lines run the suite itself": 1},
    "docs/kafka.md": {"needs the containers of compose.yaml": 1},
    "docs/models.md": {"needs an app and a server that run; tests/client does": 2},
    "docs/testing.md": {"starts brokers of its own; tests/kafka/test_broker.py does": 1},
    "docs/tutorial.md": {"shows the versions of the reader's machine": 1},
}
