"""What is particular to the Python clients: threads, tasks, iteration, the end."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice

import msgspec
import pytest
from tests.client.scripted import HEAD, ID, Response, chunk, frame, rows, scripted, stream
from tests.waiting import HANG_SECONDS

import tidegate.client
from tidegate.client import AsyncModelClient, ClientError, ModelClient, Version, afollow, follow
from tidegate.client.base import FIRST_WAIT, back_off
from tidegate.client.held import LONGEST_LINE, Lines, Unusable
from tidegate.errors import ConfigError

ROWS = rows({"n": 1}, {"n": 2}, {"n": 3})
ONE, TWO, THREE = ROWS
NOWHERE = "http://127.0.0.1:1"


def test_follow_waits_for_the_first_frame() -> None:
    frames = stream(frame(ONE), frame(TWO, ONE), hold=True)
    with scripted([frames]) as server, follow(server.url, "flows", ID, grant="g") as client:
        assert (client.state, client.token, client.gone) == ({"n": 1}, ONE.token(ID), False)
        assert [state["n"] for state in islice(client, 2)] == [1, 2]
    assert server.header("Authorization") == ["Bearer g"]


def test_afollow_waits_for_the_first_frame() -> None:
    async def main(url: str) -> None:
        async with afollow(url, "flows", ID, grant=lambda: "g") as client:
            assert (client.state, client.token, client.gone) == ({"n": 1}, ONE.token(ID), False)
            states = aiter(client)
            assert [(await anext(states))["n"] for _ in range(2)] == [1, 2]

    with scripted([stream(frame(ONE), frame(TWO, ONE), hold=True)]) as server:
        asyncio.run(main(server.url))
    assert server.header("Authorization") == ["Bearer g"]


def test_closing_a_client_ends_the_iteration_of_another_thread() -> None:
    with scripted([stream(frame(ONE), hold=True)]) as server, ThreadPoolExecutor() as threads:
        client = ModelClient(server.url, "flows", ID)
        first = threading.Event()

        def work() -> list[object]:
            found = []
            for state in client:
                found.append(state)
                first.set()
            return found

        states = threads.submit(work)
        assert first.wait(HANG_SECONDS)
        client.close()
        assert states.result(HANG_SECONDS) == [{"n": 1}]
        assert list(client) == []


def test_closing_a_client_ends_its_wait_before_the_next_attempt() -> None:
    with ThreadPoolExecutor() as threads:
        client = ModelClient(NOWHERE, "flows", ID, longest_wait=1000.0)
        client._failures = 10
        states = threads.submit(list, client)
        client.close()
        assert states.result(HANG_SECONDS) == []


def test_threads_that_share_an_iterator_get_no_version_twice() -> None:
    with scripted([stream(*frames(), hold=True, pause=0.02)]) as server, ThreadPoolExecutor() as threads:
        client = ModelClient(server.url, "flows", ID)
        shared = client.subscribe()
        taking = [threads.submit(lambda: [one.token for one in shared]) for _ in range(3)]
        own = [threads.submit(reached, client, THREE.token(ID)) for _ in range(3)]
        assert [one.result(HANG_SECONDS) for one in own] == [3, 3, 3]
        client.close()
        taken = [token for one in taking for token in one.result(HANG_SECONDS)]
        assert len(taken) == len(set(taken))


def frames() -> list[bytes]:
    return [frame(ONE), frame(TWO, ONE), frame(THREE, TWO)]


def reached(client: ModelClient, token: str) -> int:
    found: int = next(version.state["n"] for version in client.subscribe() if version.token == token)
    return found


def test_a_cancelled_wait_loses_nothing() -> None:
    async def main(url: str) -> list[Version]:
        found: list[Version] = []
        async with AsyncModelClient(
            url, "flows", ID
        ) as client:  # connected: that may take longer than a wait
            versions = client.subscribe()
            while len(found) < 3:
                try:
                    async with asyncio.timeout(0.01):
                        found.append(await anext(versions))
                except TimeoutError:
                    continue
        return found

    pieces = [part for one in frames() for part in (one[:9], one[9:40], one[40:])]
    with scripted([stream(*pieces, hold=True, pause=0.03)]) as server:
        found = asyncio.run(main(server.url))
    assert [one.state["n"] for one in found] == [1, 2, 3]
    assert len(server.requests) == 1


def test_waits_that_are_cancelled_before_the_connection_is_open_still_open_it() -> None:
    async def main(url: str) -> list[Version]:
        client = AsyncModelClient(url, "flows", ID)
        versions, found = client.subscribe(), list[Version]()
        for _ in range(1000):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    found.append(await anext(versions))
                    break
        client.close()
        return found

    slow = (HEAD[:5], HEAD[5:20], HEAD[20:], chunk(frame(ONE)))
    with scripted([Response(slow, hold=True, pause=0.05)]) as server:
        assert [one.state for one in asyncio.run(main(server.url))] == [{"n": 1}]
    assert len(server.requests) == 1


def test_a_cancelled_wait_does_not_shorten_the_time_before_the_next_attempt() -> None:
    async def main(url: str) -> int:
        client = AsyncModelClient(url, "flows", ID, longest_wait=1000.0)
        client._failures = 20
        versions = client.subscribe()
        for _ in range(20):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    await anext(versions)
        client.close()
        return client._failures

    with scripted([]) as server:
        assert asyncio.run(main(server.url)) <= 21


def test_closing_an_async_client_ends_its_wait_for_the_connection() -> None:
    async def main(url: str) -> list[Version]:
        client = AsyncModelClient(url, "flows", ID)
        task = asyncio.create_task(anext(client.subscribe(), None))
        async with asyncio.timeout(HANG_SECONDS):
            while not server.requests:
                await asyncio.sleep(0.01)
            client.close()
            return [one for one in [await task] if one is not None]

    with scripted([Response((HEAD[:5],), hold=True)]) as server:
        assert asyncio.run(main(server.url)) == []


def test_closing_an_async_client_ends_its_iterations() -> None:
    async def main(url: str) -> list[object]:
        client = AsyncModelClient(url, "flows", ID)
        first = asyncio.Event()

        async def work() -> list[object]:
            found = []
            async for state in client:
                found.append(state)
                first.set()
            return found

        task = asyncio.create_task(work())
        await first.wait()
        client.close()
        return await task

    with scripted([stream(frame(ONE), hold=True)]) as server:
        assert asyncio.run(main(server.url)) == [{"n": 1}]


def test_patience_ends_with_server_unreachable() -> None:
    with pytest.raises(ClientError, match="server-unreachable") as raised:
        next(ModelClient(NOWHERE, "flows", ID, patience=0.0).subscribe())
    assert raised.value.retryable

    async def main() -> None:
        await anext(AsyncModelClient(NOWHERE, "flows", ID, patience=0.0).subscribe())

    with pytest.raises(ClientError, match="server-unreachable"):
        asyncio.run(main())


def test_a_grant_that_ended_is_replaced_if_a_function_returns_it() -> None:
    ended = {"error": {"code": "grant-ended", "message": "m", "hint": "h", "retryable": False}}
    grants = iter(["g1", "g2"])
    first = stream(frame(ONE), msgspec.json.encode(ended) + b"\n")
    with scripted([first, stream(frame(TWO, ONE), hold=True)]) as server:
        client = follow(server.url, "flows", ID, grant=lambda: next(grants), longest_wait=0.001)
        assert [one["n"] for one in islice(client, 2)] == [1, 2]
        client.close()
    assert server.header("Authorization") == ["Bearer g1", "Bearer g2"]


@pytest.mark.parametrize("url", ["", "localhost:8470", "ftp://x", "http://"])
def test_a_bad_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="bad-url"):
        ModelClient(url, "flows", ID)


def test_waits_are_a_random_part_of_a_time_that_doubles_up_to_the_longest() -> None:
    for failures, most in ((1, FIRST_WAIT), (2, 2 * FIRST_WAIT), (50, 10.0), (10_000, 10.0)):
        waits = [back_off(failures, 10.0) for _ in range(300)]
        assert 0 <= min(waits) < 0.2 * most
        assert 0.8 * most < max(waits) <= most


def test_lines_are_cut_wherever_bytes_are_cut() -> None:
    text = b'{"a":1}\n\n{"b":"\xc3\xa9"}\r\n\nrest'
    for size in range(1, len(text) + 1):
        lines = Lines()
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        found = [line.strip() for piece in pieces for line in lines.feed(piece)]
        assert found == [b'{"a":1}', b'{"b":"\xc3\xa9"}']
    with pytest.raises(Unusable):
        Lines().feed(b"x" * (LONGEST_LINE + 1))


def test_the_exported_names_are_there() -> None:
    assert [name for name in tidegate.client.__all__ if not hasattr(tidegate.client, name)] == []
