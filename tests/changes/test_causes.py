"""Why the fingerprint of a function differs."""

from __future__ import annotations

from tidegate.changes.causes import causes
from tidegate.changes.changes import Reason
from tidegate.fingerprint import Fingerprint, Unit
from tidegate.topology.code import CodeEntry


def units(**found: str) -> dict[str, Unit]:
    """Units of the module `shop` by name; the digest is their content, the line its length."""
    return {f"shop:{name}": Unit(f"shop.py:{len(content)}", content) for name, content in found.items()}


def prints(digest: str, *names: str, version: str = "", **values: str) -> Fingerprint:
    return Fingerprint(digest, [f"shop:{name}" for name in names], values, version=version)


def why(old: Fingerprint, new: Fingerprint, before: dict[str, Unit], after: dict[str, Unit]) -> list[Reason]:
    """Why `add` differs."""
    codes = (CodeEntry(known, {one.digest: one}) for known, one in ((before, old), (after, new)))
    return causes("add", old.digest, new.digest, *codes)


def test_equal_fingerprints_have_no_cause() -> None:
    assert why(prints("a", "add"), prints("a", "add"), units(add="x"), units(add="yy")) == []


def test_the_unit_that_differs_is_the_cause_with_both_lines_and_the_function_that_reaches_it() -> None:
    before, after = units(add="x", discount="y", tax="z"), units(add="x", discount="yy", tax="z")
    [cause] = why(prints("a", "add", "discount"), prints("b", "add", "discount"), before, after)
    assert (cause.what, cause.unit) == ("discount differs", "shop:discount")
    assert (cause.before, cause.after, cause.through) == ("shop.py:1", "shop.py:2", "add")


def test_a_unit_that_is_now_reached_as_well_is_a_consequence_of_the_one_that_changed() -> None:
    before, after = units(add="x"), units(add="xx", discount="y")
    [cause] = why(prints("a", "add"), prints("b", "add", "discount"), before, after)
    assert cause.unit == "shop:add"


def test_a_unit_that_is_reached_without_any_other_change_is_new() -> None:
    before, after = units(add="x"), units(add="x", registered="y")
    [cause] = why(prints("a", "add"), prints("b", "add", "registered"), before, after)
    assert (cause.what, cause.before, cause.after) == ("registered is new", "", "shop.py:1")
    [cause] = why(prints("b", "add", "registered"), prints("a", "add"), after, before)
    assert (cause.what, cause.before, cause.after) == ("registered is gone", "shop.py:1", "")


def test_a_unit_that_only_moved_is_no_cause() -> None:
    before, after = units(add="x", old="y", limit="1"), units(add="x", new="y", limit="22")
    old, new = prints("a", "add", "old", "limit"), prints("b", "add", "new", "limit")
    assert [cause.unit for cause in why(old, new, before, after)] == ["shop:limit"]
    without = units(add="x", old="y"), units(add="x", new="y")
    found = why(prints("a", "add", "old"), prints("b", "add", "new"), *without)
    assert [cause.what for cause in found] == ["its add changed"]


def test_the_smallest_unit_that_differs_is_named() -> None:
    before = {"shop:app": Unit("shop.py:1", "a"), "shop:app.<lambda>": Unit("shop.py:3", "b")}
    after = {"shop:app": Unit("shop.py:1", "aa"), "shop:app.<lambda>": Unit("shop.py:3", "bb")}
    [cause] = why(prints("a", *_names(before)), prints("b", *_names(before)), before, after)
    assert cause.unit == "shop:app.<lambda>"


def _names(found: dict[str, Unit]) -> list[str]:
    return [name.removeprefix("shop:") for name in found]


def test_a_value_that_differs_is_named_and_not_shown() -> None:
    same = units(add="x")
    old, new = prints("a", "add", **{"closure limit": "1"}), prints("b", "add", **{"closure limit": "2"})
    assert [cause.what for cause in why(old, new, same, same)] == ["closure limit differs"]
    none = prints("c", "add")
    assert [cause.what for cause in why(none, new, same, same)] == ["closure limit is new"]
    assert [cause.what for cause in why(new, none, same, same)] == ["closure limit is gone"]


def test_a_declared_version_is_named() -> None:
    same = units(add="x")
    found = why(prints("a", "add", version="1"), prints("b", "add", version="2"), same, same)
    assert [cause.what for cause in found] == ["its version is '2', was '1'"]


def test_a_function_that_is_new_or_gone() -> None:
    none = CodeEntry()
    assert [cause.what for cause in causes("hash", "", "a", none, none)] == ["its hash is new"]
    assert [cause.what for cause in causes("hash", "a", "", none, none)] == ["its hash is gone"]


def test_code_that_was_not_recorded_has_changed_all_the_same() -> None:
    assert [cause.what for cause in causes("add", "a", "b", CodeEntry(), CodeEntry())] == ["its add changed"]
