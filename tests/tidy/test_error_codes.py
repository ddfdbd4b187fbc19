"""Every code that the source can raise is looked for by some test."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.tidy.error_codes import Module, error_classes, looked_for, modules, source_codes

ROOT = Path(__file__).parents[2]


def test_every_error_code_is_looked_for_by_a_test() -> None:
    """For a new code: write a test in which the real code raises it."""
    source = modules(ROOT / "src" / "tidegate")
    codes, unclear = source_codes(source)
    assert unclear == [], "give the code as a literal, or teach error_codes.py to find it"
    assert len(codes) > 170
    tested = looked_for(modules(ROOT / "tests"), error_classes(source), codes)
    assert {code: place for code, place in sorted(codes.items()) if code not in tested} == {}


def module(text: str) -> list[Module]:
    return [Module(Path("made.py"), ast.parse(text))]


def test_codes_are_found_however_they_are_given() -> None:
    """By a literal, a keyword, a class, a function, a choice, a table. Another error's own code is none."""
    found, unclear = source_codes(
        module("""
class OddError(TidegateError):
    def __init__(self):
        super().__init__("by-class", "m")

TABLE = [((KeyError,), "by-table", "a sentence")]

def helper(name, code):
    return StrangeError(code, name)

def helper_of_a_helper(code, name):
    return helper(name, code)

class StrangeError(OddError): ...

def f(error, x):
    raise OddError("by-literal", "m")
    raise StrangeError(message="m", code="by-keyword")
    raise helper("n", "by-function")
    raise helper_of_a_helper("by-two-functions", "n")
    raise OddError(error.code, "m")
    code = "by-choice" if x else "other-choice"
    raise OddError(code, "m")

def e():
    raise KeyError("no-error-of-ours")

def g(error):
    [code] = [code for kind, code, _ in TABLE if isinstance(error, kind)]
    raise OddError(code, "m")

def h(x):
    raise OddError(f"made-{x}", "m")
""")
    )
    ways = {"class", "table", "literal", "keyword", "function", "two-functions", "choice"}
    assert set(found) == {f"by-{way}" for way in ways} | {"other-choice"}
    assert [place.split(" ", 1)[1] for place in unclear] == ["f'made-{x}'"]


def test_only_what_is_looked_for_counts_as_tested() -> None:
    tests = module("""
def test_one():
    "prose about in-prose and [prose]"
    raise LogError("only-made", "m")
    assert error.code == "compared"
    assert "[in-brackets] m" in text
    assert headers["code"] == b"in-bytes"
    pytest.raises(LogError, match=r"\\[single\\]")
    assert "a word of plain prose"
""")
    codes = ["in-prose", "prose", "only-made", "compared", "in-brackets", "in-bytes", "single", "plain"]
    assert looked_for(tests, {"LogError"}, codes) == {"compared", "in-brackets", "in-bytes", "single"}
