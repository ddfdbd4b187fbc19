"""How the tests of one run are shared out among its processes (`pytest -n auto`, `make test`).

A unit is what one process runs without a break. A worker makes units of what it collected, and leaves them in
a file for the controller, which hands them out:

    uses the Spark session              one unit for all: the session takes a core or two by itself
    starts Spark, brokers or the demo   another one for nearly all, for the same reason
    uses the browser                    one unit for all: there is one browser
    uses a fixture of a file or class   the file: such fixtures start Java programs and servers
    slow, and nothing of that           the test alone
    the rest                            the file

The longest units come first (`longest_units.txt`), so that no process is left with a long one at the end.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.shared_broker import ADDRESS, BrokerService

LONGEST = Path(__file__).with_name("longest_units.txt")
UNITS = "units_file"
SPARK, PROGRAMS, BROWSER = "the Spark session", "clusters, brokers and demos", "the browser"
HEAVY = {
    "tests/spark/": PROGRAMS,
    "tests/docs/test_pages_on_spark.py": PROGRAMS,
    "tests/dashboard/": BROWSER,
    "tests/cli/test_demo_orders.py": PROGRAMS,
    "tests/kafka/test_broker.py": SPARK,
    "tests/kafka/test_broker_": PROGRAMS,
    "tests/kafka/test_oracle.py": SPARK,
    "tests/kafka/test_demo.py": SPARK,
    "tests/serde/test_real_registry.py": SPARK,
}
"""Units by how the names of their files begin. Each starts several processes that compute: two of them beside
others are as many as two cores can run without time-outs. Those that come to `SPARK` run before its session
starts, so that both units take about as long."""
GIB_FOR_A_WORKER = 4
"""Of memory: a test may start three brokers, or a Spark cluster of five processes."""


def unit_of(item: pytest.Item) -> str:
    """The name of the unit that a test belongs to."""
    file = item.nodeid.partition("::")[0]
    if "spark" in getattr(item, "fixturenames", ()):
        return SPARK
    if item.get_closest_marker("slow") is not None:
        for beginning, unit in HEAVY.items():
            if file.startswith(beginning):
                return unit
    if item.get_closest_marker("slow") is None or _shares_with_its_file(item):
        return file
    return item.nodeid


def _shares_with_its_file(item: pytest.Item) -> bool:
    info: Any = getattr(item, "_fixtureinfo", None)
    found = info.name2fixturedefs.values() if info else ()
    scopes = {defs[-1].scope for defs in found if defs}
    return bool(scopes & {"module", "class", "package"})


@functools.cache
def longest_units() -> dict[str, float]:
    """Unit -> seconds, as measured once."""
    lines = (line.split(maxsplit=1) for line in LONGEST.read_text().splitlines() if line[:1].isdigit())
    return {unit: float(seconds) for seconds, unit in lines}


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Longest units first, then slow tests, then the rest; the tests of a unit stay in their order."""
    seconds = longest_units()

    def rank(item: pytest.Item) -> tuple[float, bool]:
        return -seconds.get(unit_of(item), 0.0), item.get_closest_marker("slow") is None

    return sorted(items, key=rank)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three for two cores, as many slow tests wait for most of their time; fewer where memory is short. With
    two for each core, at times nineteen threads waited for a core, and brokers answered too late."""
    cores = len(os.sched_getaffinity(0))
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return max(1, min(3 * cores // 2, int(gib / GIB_FOR_A_WORKER)))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """In the controller, for each worker: where to ask for the broker, and where to leave the units."""
    folder: Path = node.config._tmp_path_factory.getbasetemp()
    if not hasattr(node.config, "kafka_for_workers"):
        node.config.kafka_for_workers = BrokerService(folder)
    node.workerinput[ADDRESS] = node.config.kafka_for_workers.address
    node.workerinput[UNITS] = str(folder / "units.json")


def pytest_unconfigure(config: Any) -> None:
    """In the controller: end the broker."""
    if hasattr(config, "kafka_for_workers"):
        config.kafka_for_workers.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """In a worker, before it reports what it collected: leave the units where the controller finds them."""
    given: dict[str, Any] = getattr(session.config, "workerinput", {})
    if UNITS in given:
        final = Path(given[UNITS])
        written = final.with_suffix(f".{given['workerid']}")
        written.write_text(json.dumps({item.nodeid: unit_of(item) for item in session.items}))
        written.rename(final)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out units, unless another way was chosen with `--dist`."""
    if config.getoption("dist") != "load":
        return None
    from tests.scheduler import UnitScheduling

    config.option.loadscopereorder = False
    folder: Path = config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    return UnitScheduling(config, log, folder / "units.json")
