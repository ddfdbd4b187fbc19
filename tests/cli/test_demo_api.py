"""The demo's client: answers, errors, and a stream that goes on where it broke off."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.waiting import wait_for

from tidegate import TidegateError
from tidegate.cli.demo.api import Api, RecordStream
from tidegate.cli.demo.source import Totals
from tidegate.cli.demo.watch import Snapshot, Watch

NOT_FOUND = b'{"error": {"code": "no-such-topic", "message": "not yet", "hint": "wait"}}'
Answers = Callable[[str], tuple[int, bytes]]


@contextmanager
def serving(answers: Answers) -> Iterator[tuple[Api, list[str]]]:
    """A server whose answers are made up, and the requested paths. Each answer ends its connection."""
    requested: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requested.append(self.path)
            status, body = answers(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name is given
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Api(f"http://127.0.0.1:{server.server_port}"), requested
        finally:
            server.shutdown()
            thread.join()


def event(number: int) -> bytes:
    return b'id: orders:0=%d\nevent: records\ndata: [{"n": %d}]\n\n' % (number, number)


def test_an_error_is_shown_as_the_server_reports_it() -> None:
    with serving(lambda _: (404, NOT_FOUND)) as (api, requested):
        with pytest.raises(TidegateError) as error:
            api.get("/gates/none", limit="1")
        assert (error.value.code, error.value.hint, error.value.retryable) == ("no-such-topic", "wait", True)
        assert requested == ["/gates/none?limit=1"]
    with pytest.raises(TidegateError, match="no-answer"):
        api.get("/gates")
    with serving(lambda _: (200, b"what?")) as (api, _), pytest.raises(TidegateError, match="no-answer"):
        api.get("/gates")


def test_a_stream_waits_for_its_topics_and_goes_on_where_it_broke_off() -> None:
    reported = iter(
        [
            (404, NOT_FOUND),
            (200, b"retry: 1000\n\n" + event(1) + event(2) + b"id: orders:0=3\nevent: records\n"),
            (200, event(3) + b'event: failure\ndata: {"error": {}}\n\n'),
        ]
    )
    taken: list[Any] = []
    with serving(lambda _: next(reported, (200, b": still here\n\n"))) as (api, requested):
        following = RecordStream(api, ["orders", "totals"], taken.append)
        wait_for(lambda: len(requested) >= 4)
        following.stop()
        following.stop()
    assert taken == [{"n": 1}, {"n": 2}, {"n": 3}]
    topics = "/live?topic=orders&topic=totals"
    assert requested[:4] == [
        f"{topics}&from=start",
        f"{topics}&from=start",
        f"{topics}&at=orders%3A0%3D2",
        f"{topics}&at=orders%3A0%3D3",
    ]


def test_what_is_not_known_yet_is_shown_as_it_was() -> None:
    known = {
        "/gates/orders-gate": b'{"paused": 1, "held": 3, "bytes": 9, "oldest": null, "gate_wide": false}'
    }

    def answers(path: str) -> tuple[int, bytes]:
        return (200, known[path]) if path in known else (404, NOT_FOUND)

    with serving(answers) as (api, _), closing(Watch(api, dict, 0.0)) as watch:
        assert (watch.snapshot().held, watch.snapshot().slots) == (3, 0)
        known.clear()
        assert watch.snapshot().held == 3
    assert Snapshot().of("nobody").orders == 0


def test_before_the_app_is_known_everything_that_was_sent_waits() -> None:
    """While Spark starts there is no app on the log yet, and orders are sent all the same."""
    known: dict[str, bytes] = {"/tasks": b'{"apps": []}'}

    def answers(path: str) -> tuple[int, bytes]:
        return (200, known[path]) if path in known else (404, NOT_FOUND)

    def sent() -> dict[str, Totals]:
        return {"ada": Totals(orders=15_000), "bob": Totals(orders=572)}

    silent = {"slot": 0, "state": "silent", "numbers": {"per_second": 9.0}}
    running = {"slot": 1, "state": "running", "numbers": {"per_second": 2.0}}
    with serving(answers) as (api, _), closing(Watch(api, sent, 0.0)) as watch:
        assert (watch.snapshot().lag, watch.snapshot().slots) == (15_572, 0)
        known["/tasks"] = json.dumps({"apps": [{"lag": 906, "slots": [silent, running]}]}).encode()
        shown = watch.snapshot()
        assert (shown.lag, shown.slots, shown.processed_per_second) == (906, 1, 2.0)
