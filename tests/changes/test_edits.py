"""Edits of a small project and what they mean: which component changed, and which kind of change it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.changes.project import FILES, Project, project
from tests.changes.versions import verdicts

from tidegate.changes.changes import ChangeKind
from tidegate.changes.summary import clauses
from tidegate.topology.code import CodeEntry
from tidegate.topology.manifest import Manifest

pytestmark = pytest.mark.usefixtures("suite_apart")
NEW, GONE, KEY, MORE, SCHEMA, LESS, CONFIGURATION, LOGIC = ChangeKind
APP, TOPICS, RULES = "app.py", "topics.py", "pricing/rules.py"
SHOP, VISITS = "by-customer", "seen"
"""The two components."""

STATEMENTS = FILES[APP][FILES[APP].index("    orders = ") : FILES[APP].index("    return made")]
SWAPPED = "".join(line + "\n" for line in [*STATEMENTS.splitlines()[2:], *STATEMENTS.splitlines()[:2]])
SAME = [
    pytest.param(RULES, "def fee", "# The fee of the shop.\n\n\ndef fee", id="comment"),
    pytest.param(RULES, "part // 100", "(part  //  100)", id="formatting"),
    pytest.param(RULES, "    part = ", '    """The fee."""\n    part = ', id="docstring"),
    pytest.param(RULES, "doubled = number * 2", "twice = doubled = number * 2", id="unrelated function"),
    pytest.param(
        RULES, "    doubled = number * 2\n    return doubled", "    x = number * 2\n    return x", id="locals"
    ),
    pytest.param(APP, STATEMENTS, SWAPPED, id="swapped statements"),
    pytest.param(APP, "import net\n", "import net as net\n", id="alias of an import"),
]
CHANGED = [
    pytest.param(RULES, "// 100", "// 99", {LOGIC}, SHOP, "fee differs", id="helper three calls deep"),
    pytest.param(RULES, "RATE = 3", "RATE = 4", {LOGIC}, SHOP, "RATE", id="constant"),
    pytest.param(
        APP,
        "return order.customer",
        "return order.customer.lower()",
        {KEY, LOGIC},
        SHOP,
        "customer differs",
        id="key extractor",
    ),
    pytest.param(
        TOPICS,
        "return order.at",
        "return order.at + 1",
        {LOGIC},
        SHOP,
        "time_of differs",
        id="timestamp extractor",
    ),
    pytest.param(
        TOPICS,
        "    at: int = 0",
        "    at: int = 0\n    note: str = ''",
        {LOGIC, SCHEMA},
        SHOP,
        "note",
        id="field",
    ),
    pytest.param(
        TOPICS,
        'Topic("visits", str)',
        'Topic("visits", str, key=int)',
        {KEY},
        VISITS,
        "its keys are int, were str",
        id="key of a source",
    ),
    pytest.param(
        TOPICS,
        'Topic("visits", str)',
        'Topic("visits", bytes)',
        {LOGIC},
        VISITS,
        "its values are",
        id="serde of a source",
    ),
    pytest.param(
        APP,
        "retention=1000",
        "retention=2000",
        {CONFIGURATION},
        VISITS,
        "its retention is 2000, was 1000",
        id="retention",
    ),
    pytest.param(
        APP,
        'repartition("again")',
        'repartition("again", partitions=3)',
        {CONFIGURATION},
        VISITS,
        "it has 3 partitions, had 2",
        id="partition count",
    ),
    pytest.param(
        APP,
        "made.stream(ORDERS)",
        "made.stream(ORDERS).merge(made.stream(RETURNS))",
        {NEW},
        SHOP,
        'new source "returns"',
        id="new source",
    ),
    pytest.param(
        APP,
        ".to(PAGES)",
        '.to(PAGES)\n    made.stream(VISITS).count("all").to(ALL)',
        {MORE},
        VISITS,
        '"all"',
        id="more state",
    ),
    pytest.param(
        APP,
        'process("look", look, stores=[SEEN])',
        'process("look", look)',
        {LESS},
        VISITS,
        'store "seen" is gone',
        id="less state",
    ),
    pytest.param(
        APP,
        "made.stream(VISITS)",
        'made.stream(VISITS, on_error="skip")',
        {CONFIGURATION},
        VISITS,
        'on_error is "skip", was none',
        id="policy",
    ),
]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Manifest, CodeEntry]:
    """The project as it is before an edit."""
    with project(tmp_path_factory.mktemp("before")) as shop:
        return shop.manifest()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Project]:
    with project(tmp_path) as made:
        yield made


@pytest.mark.parametrize(("name", "old", "new"), SAME)
def test_an_edit_that_changes_no_result_is_none(
    shop: Project, known: tuple[Manifest, CodeEntry], name: str, old: str, new: str
) -> None:
    shop.edit(name, old, new)
    changes = shop.changes(known)
    assert changes.nothing, clauses(changes)


@pytest.mark.parametrize(("name", "old", "new", "kinds", "component", "clause"), CHANGED)
def test_an_edit_changes_one_component_and_is_recognised(
    shop: Project,
    known: tuple[Manifest, CodeEntry],
    name: str,
    old: str,
    new: str,
    kinds: set[ChangeKind],
    component: str,
    clause: str,
) -> None:
    shop.edit(name, old, new)
    changes = shop.changes(known)
    assert {one for one, verdict in verdicts(changes).items() if verdict == "changed"} == {component}
    assert set(verdicts(changes).values()) == {"changed", "kept"}
    assert kinds <= set(changes.kinds)
    assert any(clause in one for one in clauses(changes)), clauses(changes)


def test_a_removed_source(shop: Project) -> None:
    shop.edit(APP, "made.stream(ORDERS)", "made.stream(ORDERS).merge(made.stream(RETURNS))")
    before = shop.manifest()
    shop.edit(APP, ".merge(made.stream(RETURNS))", "")
    changes = shop.changes(before)
    assert GONE in changes.kinds
    assert any(one.startswith('source "returns" is gone') for one in clauses(changes))


def test_a_counted_setting_and_an_operational_one(shop: Project, known: tuple[Manifest, CodeEntry]) -> None:
    assert shop.changes(known, note="other").nothing
    assert shop.changes(known, least=5).kinds == [CONFIGURATION]


def test_the_lines_of_both_versions_are_those_of_the_unit(
    shop: Project, known: tuple[Manifest, CodeEntry]
) -> None:
    shop.edit(RULES, "RATE = 3\n", "RATE = 3\n\n\n")
    assert shop.changes(known).nothing
    shop.edit(RULES, "// 100", "// 50")
    [clause] = clauses(shop.changes(known))
    assert clause == (
        "fee differs (edited_shop/pricing/rules.py:8, was edited_shop/pricing/rules.py:6), used by aggregate"
        ' "sums" (app.py:24)'
    )
