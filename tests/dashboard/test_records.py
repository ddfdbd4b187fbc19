"""Topics in the browser: bytes are shown exactly, nothing of a record runs, and floods are thinned out."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, Route, expect
from tests.dashboard.browser import measured
from tests.dashboard.conftest import Open
from tests.gate.app import EVENTS
from tests.gate.working import Working
from tests.repetitions import repeated

from tidegate.clock import SystemClock
from tidegate.connect.connection import Connection
from tidegate.log.reads import read_between
from tidegate.log.records import Row, rows_of, to_batch
from tidegate.log.sqlite.log import SqliteLog
from tidegate.log.topic import TopicSpec
from tidegate.types import TopicPartition

pytestmark = pytest.mark.slow
ATTACKS = (
    "<script>window.ran = 1</script>",
    "<img src=x onerror='window.ran = 1'>",
    "\"><svg onload='window.ran = 1'>",
    "javascript:window.ran=1",
    "{{constructor.constructor('window.ran = 1')()}}",
    "<style>*{display:none}</style>",
)


@pytest.fixture
def odd(log: SqliteLog, connection: Connection) -> TopicPartition:
    """A topic with one partition and a first record."""
    log.create(TopicSpec("odd", 1, {"max.message.bytes": str(20 << 20)}))
    return TopicPartition("odd", 0)


def append(log: SqliteLog, partition: TopicPartition, *rows: Row) -> None:
    log.append(partition, to_batch(rows))


def test_odd_records_are_shown_exactly(open_tab: Open, log: SqliteLog, odd: TopicPartition) -> None:
    append(
        log,
        odd,
        Row(b"big", b'{"n": 9223372036854775807, "m": -9223372036854775808}', 1),
        Row(b"nul", b"a\x00b", 2),
        Row(b"\xff\xfe", b"\xc3\x28", 3),
        Row(b"gone", None, 4),
        Row(None, b"1", 5),
        Row(b"../%2F", "\u202eright".encode(), 6),
    )
    page = open_tab().live("/topics/odd")
    expect(page.locator("[data-record]")).to_have_count(6)
    shown = {one.split("\n")[1]: one for one in page.locator("[data-record]").all_inner_texts()}
    assert "9223372036854775807" in shown["0/0"]
    assert "0xfffe" in shown["0/2"]
    assert "tombstone" in shown["0/3"]
    assert "(no key)" in shown["0/4"]
    assert "../%2F" in shown["0/5"]
    assert "\\u202eright" in shown["0/5"]
    expect_json(page, "0/0", '"n": 9223372036854775807')
    expect_json(page, "0/0", '"m": -9223372036854775808')
    expect_json(page, "0/3", "tombstone")
    choose(page, "0/2")
    page.get_by_role("tab", name="Hex").click()
    expect(page.locator("[data-bytes='2']")).to_contain_text("c3 28")
    page.get_by_role("tab", name="Raw").click()
    expect(page.locator("[data-bytes='2']")).to_have_text("\\xc3(")
    choose(page, "0/1")
    page.get_by_role("tab", name="Raw").click()
    expect(page.locator("[data-bytes='3']")).to_have_text("a\\u0000b")


def test_ten_megabytes_are_read_in_parts(open_tab: Open, log: SqliteLog, odd: TopicPartition) -> None:
    append(log, odd, Row(b"large", b"x" * ((10 << 20) - 1) + b"!", 7))
    page = open_tab().live("/topics/odd?record=0/0")
    page.get_by_role("tab", name="Raw").click()
    content = page.locator("[data-bytes='10485760']")
    expect(content).to_be_visible()
    page.get_by_role("button", name="Last").click()
    expect(content).to_have_text("x" * 32_767 + "!")


def test_nothing_of_a_record_runs(open_tab: Open, log: SqliteLog, odd: TopicPartition) -> None:
    for attack in ATTACKS:
        data = attack.encode()
        append(log, odd, Row(data, data, 1, ((attack, data),)))
    page = open_tab().live("/topics/odd")
    for number, attack in enumerate(ATTACKS):
        choose(page, f"0/{number}")
        expect(page.locator("aside [data-key]")).to_have_text(attack)
        expect(page.locator("[data-json]")).to_contain_text(attack.replace('"', '\\"'))
        page.get_by_role("tab", name="Headers").click()
        expect(page.locator("aside [role=tabpanel] dt").last).to_have_text(attack)
    assert page.evaluate("window.ran") is None


def test_nothing_of_a_reason_or_an_actor_runs(open_tab: Open, log: SqliteLog, working: Working) -> None:
    page = open_tab().live("/gates/door/key?key=%3Cb%3E&app=gated")
    page.get_by_role("button", name="Pause").click()
    page.get_by_label("Reason").fill("".join(ATTACKS))
    page.keyboard.press("Enter")
    expect(page.locator("[data-step=applied]")).to_be_visible()
    expect(page.get_by_text("".join(ATTACKS)).first).to_be_visible()
    page.get_by_role("link", name="door", exact=True).click()
    expect(page.get_by_text("".join(ATTACKS)[:200])).to_be_visible()
    assert page.evaluate("window.ran") is None


def test_filters_are_in_the_address_and_a_stopped_view_stands_still(
    open_tab: Open, working: Working, connection: Connection
) -> None:
    connection.send(EVENTS, "ada", 1, 2)
    connection.send(EVENTS, "bob", 3)
    page = open_tab().live("/topics/events")
    expect(page.locator("[data-record]")).to_have_count(3)
    page.get_by_label("Only this key").fill("ada")
    page.keyboard.press("Enter")
    expect(page.locator("[data-record]")).to_have_count(2)
    assert page.url.endswith("?key=ada")
    page.get_by_role("heading", name="events").click()
    page.keyboard.press("s")
    connection.send(EVENTS, "bob", 4)
    connection.send(EVENTS, "ada", 5)
    expect(page.get_by_role("button", name="Go on (1 new)")).to_be_visible()
    expect(page.locator("[data-record]")).to_have_count(2)
    page.keyboard.press("s")
    expect(page.locator("[data-record]")).to_have_count(3)
    page.keyboard.press("j")
    expect(page.locator("[data-json]")).to_have_text("5")


def test_records_on_their_way_when_a_filter_changes_are_not_shown(
    open_tab: Open, working: Working, connection: Connection
) -> None:
    connection.send(EVENTS, "ada", 1)
    connection.send(EVENTS, "bob", 2)
    page = open_tab().live("/topics/events")
    expect(page.locator("[data-record]")).to_have_count(2)
    held: list[Route] = []
    released = False

    def hold(route: Route) -> None:
        if released:
            route.continue_()
        else:
            held.append(route)

    page.route("**/summary/live/*", hold)
    page.get_by_label("Only this key").fill("ada")
    page.keyboard.press("Enter")
    expect(page.locator("[data-record]")).to_have_count(1)
    connection.send(EVENTS, "bob", 3)
    connection.send(EVENTS, "ada", 4)
    page.wait_for_timeout(1500)  # they arrive as records of the view before
    expect(page.locator("[data-record]")).to_have_count(1)
    released = True
    for one in held:
        one.continue_()
    expect(page.locator("[data-record]")).to_have_count(2)
    page.get_by_role("heading", name="events").click()
    page.keyboard.press("j")
    expect(page.locator("[data-json]")).to_have_text("4")


def test_older_records_are_read_on_request(open_tab: Open, log: SqliteLog, odd: TopicPartition) -> None:
    append(log, odd, *(Row(b"k", str(number).encode(), number) for number in range(250)))
    page = open_tab().live("/topics/odd")
    rows = page.locator("[data-rows]")
    for expected in ("100", "200", "250"):
        expect(rows).to_have_attribute("data-rows", expected)
        if expected != "250":
            page.get_by_role("button", name="Older records").click()


@contextmanager
def flood(log: SqliteLog, partition: TopicPartition) -> Iterator[list[int]]:
    """Append 20,000 records a second, as far as the machine does; counts them."""
    ended, written = threading.Event(), [0]

    def work() -> None:
        began = time.monotonic()
        while not ended.wait(0.05):
            now = SystemClock().now()
            while written[0] < (time.monotonic() - began) * 20_000 and not ended.is_set():
                rows = [Row(b"k", b'{"id": 1, "cents": 500}', now)] * 1000
                log.append(partition, to_batch(rows))
                written[0] += 1000

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield written
    finally:
        ended.set()
        thread.join()


@pytest.mark.soak
def test_a_flood_is_thinned_out_and_counted(open_tab: Open, log: SqliteLog, odd: TopicPartition) -> None:
    """No task of the page is long, its memory is bounded, and what it shows is new."""
    page = open_tab().live("/topics/odd")
    expect(page.get_by_text("The topic is empty")).to_be_visible()
    with flood(log, odd) as written:
        expect(page.locator("[data-skipped]")).to_be_visible()
        page.evaluate("window.longest = 0")
        began, before, oldest = time.monotonic(), heap(page), 0.0
        for _ in range(repeated(4, 60)):
            page.wait_for_timeout(1000)
            oldest = max(oldest, age(page, log, odd))
        rate = written[0] / (time.monotonic() - began)
        longest, grown = page.evaluate("window.longest"), heap(page) - before
        skipped = int(page.locator("[data-skipped]").get_attribute("data-skipped") or 0)
        measured.info(
            f"{rate:.0f}/s, {oldest:.1f} s old, {longest:.0f} ms, {grown / 1e6:.1f} MB, {skipped:,} skipped"
        )
        assert written[0] > 10_000
    assert skipped > written[0] / 2
    assert int(page.locator("[data-rows]").get_attribute("data-rows") or 0) <= 2000
    assert oldest < repeated(10, 2)  # the suite runs beside other processes
    assert longest < repeated(500, 200)
    assert grown < 50e6


def age(page: Page, log: SqliteLog, partition: TopicPartition) -> float:
    """How many seconds old the newest record of the page is."""
    shown = page.locator("[data-record]").first.get_attribute("data-record") or ""
    newest = int(shown.partition("/")[2])
    [batch, *_] = read_between(log, partition, newest, newest + 1)
    [row] = rows_of(batch)
    return (SystemClock().now() - row.timestamp) / 1000


def heap(page: Page) -> float:
    """The bytes of the page's objects, after what is not used was collected."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return used


def expect_json(page: Page, record: str, text: str) -> None:
    choose(page, record)
    expect(page.locator("[data-json]")).to_contain_text(text)


def choose(page: Page, record: str) -> None:
    page.locator(f"[data-record='{record}']").click()
    expect(page.get_by_role("complementary", name=f"Record {record}")).to_be_visible()
