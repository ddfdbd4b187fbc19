"""The test of the documents can fail: pages that are wrong in one place each, and one that is right."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.console import fits
from tests.docs.pages import blocks, needs_kafka
from tests.docs.walk import walk

from tidegate.errors import TidegateError

RIGHT = """
Write app.py:

```python title="app.py"
from tidegate import App, TableTopic, Topic

LINES = Topic("lines", str)
COUNTS = TableTopic("counts", int)
app = App("wordcount")
app.stream(LINES).count("counted").to(COUNTS)
```

```console
$ tidegate topics create lines --partitions 2
created topic ... lines ...
$ tidegate topics send lines ada "hello"
...
```

<!-- running: app:app -->

```python
from app import LINES
from tidegate.testing import Driver

calls = []

def test_the_driver_is_there(driver):
    calls.append(driver)

print("two", "words")
```

<!-- prints -->
```text
two words
```

```python
assert len(calls) == 1
```

<!-- exits with 1 -->
```console
$ tidegate topics describe other
[no-such-topic] ...
```

<!-- starts over -->

```python
import sys
from pathlib import Path

assert "app" not in sys.modules
assert "calls" not in globals()
assert not Path("app.py").exists()
```
"""


def python(text: str, above: str = "") -> str:
    return f"{above}\n```python\n{text}\n```\n"


def console(text: str, above: str = "") -> str:
    return f"{above}\n```console\n{text}\n```\n"


def walked(text: str, folder: Path) -> int:
    return walk("page.md", folder, text=text)


def test_a_right_page_is_run_to_its_end(tmp_path: Path) -> None:
    assert walked(RIGHT, tmp_path) == 6


def test_an_exception_of_a_block_is_the_test_s(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        walked(python("1 / 0"), tmp_path)


def test_a_test_of_a_page_may_fail(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="four"):
        walked(python("def test_four():\n    assert 2 + 2 == 5, 'four'"), tmp_path)


def test_another_output_than_the_page_shows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:3"):
        walked(console("$ tidegate topics list\nsomething else"), tmp_path)


def test_another_exit_code_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="ended with 1, not 0"):
        walked(console("$ tidegate topics describe other"), tmp_path)
    with pytest.raises(AssertionError, match="ended with 0, not 1"):
        walked(console("$ true", "<!-- exits with 1 -->"), tmp_path / "other")


def test_a_page_whose_error_is_not_raised_fails(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="did not raise bad-name"):
        walked(python("pass", "<!-- raises bad-name -->"), tmp_path)


def test_another_error_than_the_page_names_comes_out(tmp_path: Path) -> None:
    with pytest.raises(TidegateError):
        walked(python("import tidegate\ntidegate.App('a/b')", "<!-- raises other -->"), tmp_path)


def test_a_file_that_the_text_does_not_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="does not name"):
        walked('Write a file:\n\n```python title="app.py"\npass\n```\n', tmp_path)


def test_a_block_without_an_end_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no end"):
        blocks("page.md", "```python\npass\n")


def test_a_page_with_the_broker_of_compose_is_one_with_kafka() -> None:
    text = console("$ tidegate topics list --log kafka://localhost:29092")
    assert needs_kafka("page.md", text)
    assert not needs_kafka("page.md", text.replace("```console", "<!-- not run: why -->\n```console"))


def test_output_that_comes_soon_is_waited_for(tmp_path: Path) -> None:
    text = console("$ echo x >> grown; wc -l < grown\n3", "<!-- soon -->")
    assert walked(text, tmp_path) == 1


def test_three_dots_stand_for_lines_and_for_text() -> None:
    assert fits("a\n...\nz", "a\nb\nc\nz\n")
    assert fits("a\n...", "a\n")
    assert fits("at ... ms", "at 1700000 ms\n")
    assert fits("a   b", "a b  \n")
    assert not fits("a\nz", "a\nb\nz\n")
    assert not fits("at ... ms", "at 17 s\n")
    assert not fits("a", "a\nb\n")
