"""`python -m tests.semantics.record`: ask Kafka Streams, and write kafka_streams.json."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.semantics.play import RECORDED, computed_now


def main() -> None:
    """One line for each scenario: a difference shows where it is."""
    with tempfile.TemporaryDirectory() as folder:
        found = computed_now(Path(folder))
    lines = [f"  {json.dumps(name)}: {json.dumps(steps)}" for name, steps in found.pop("scenarios").items()]
    head = json.dumps(found)[:-1]
    RECORDED.write_text(head + ', "scenarios": {\n' + ",\n".join(lines) + "\n}}\n")


if __name__ == "__main__":
    main()
