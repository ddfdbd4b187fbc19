"""A tab of the dashboard, as tests open it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.server.conftest import Client

NDJSON = {"Accept": "application/x-ndjson"}
Line = dict[str, Any]


class TabClient:
    """Reads the lines of one stream."""

    def __init__(self, client: Client, lines: Iterator[str]) -> None:
        self._client = client
        self._lines = lines
        self.seen: list[Line] = []
        self.hello = self.until(lambda line: line["event"] == "hello")

    def until(self, matches: Callable[[Line], bool]) -> Line:
        """The next line that matches."""
        for text in self._lines:
            if text:
                self.seen.append(json.loads(text))
                if matches(self.seen[-1]):
                    return self.seen[-1]
        raise AssertionError("the stream has ended")

    def frame(self, matches: Callable[[Line], bool] = lambda _: True) -> Line:
        """The next frame that matches."""
        return self.until(lambda line: line["event"] == "frame" and matches(line))

    def records(self, count: int) -> list[Line]:
        """The next lines with records, until they hold so many in all."""
        found: list[Line] = []
        while sum(len(one["records"]) for one in found) < count:
            found.append(self.until(lambda line: line["event"] in ("records", "failure")))
            assert found[-1]["event"] == "records", found[-1]
        return found

    def follow(self, **what: Any) -> Any:
        return self._client.post(f"/summary/live/{self.hello['stream']}", json=what)


@contextmanager
def tab(client: Client, **headers: str) -> Iterator[TabClient]:
    """An open tab."""
    with client.stream("GET", "/summary/live", headers={**NDJSON, **headers}) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"] == "application/x-ndjson"
        yield TabClient(client, answer.iter_lines())
