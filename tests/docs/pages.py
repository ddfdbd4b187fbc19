"""The pages of the documents and their fenced blocks. CONTRIBUTING.md describes the conventions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_RUN_LANGUAGES = {"diff", "http", "java", "javascript", "json", "mermaid", "sql", "text", "toml", "yaml"}
LANGUAGES = {"python", "console"} | NOT_RUN_LANGUAGES

_FENCE = re.compile(r"^(?P<ticks>`{3,})(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\s*$")
_COMMENT = re.compile(r"^<!-- (?P<text>.*) -->$")
_DIRECTIVE = re.compile(
    r"^(?P<name>not run|exits with|raises|running|keeps running|starts over|prints|soon)\b:?\s*(?P<value>.*)$"
)
_ON_SPARK = re.compile(r"\$.*\btidegate (run|demo)\b(?!.*--help)")
_SPARK_VARIABLE = re.compile(r"(?<![\w.\"'/])spark\b(?!\w)(?!\.)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block, with what the comments above it say, or a comment that stands alone (no text)."""

    page: str
    line: int
    language: str = ""
    title: str = ""
    text: str = ""
    directives: dict[str, str] = field(default_factory=dict)
    before: str = ""
    """The paragraph above it."""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def is_run(self) -> bool:
        return "not run" not in self.directives and (
            self.language in {"python", "console"} or bool(self.title)
        )


def pages() -> list[str]:
    """README.md, CONTRIBUTING.md and everything below docs/, by path from the root of the tree."""
    found = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    return sorted(path.relative_to(ROOT).as_posix() for path in found if path.is_file())


def blocks(page: str, text: str | None = None) -> list[Block]:
    """The blocks of a page in their order."""
    return list(_blocks(page, ((ROOT / page).read_text() if text is None else text).splitlines()))


def _blocks(page: str, lines: list[str]) -> Iterator[Block]:
    directives: dict[str, str] = {}
    paragraph: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if comment := _COMMENT.match(line):
            found = _DIRECTIVE.match(comment["text"])
            if found is None:
                continue
            if found["name"] in {"running", "starts over"}:
                yield Block(page, number, directives={found["name"]: found["value"]})
            else:
                directives[found["name"]] = found["value"]
        elif line.startswith("```"):
            fence = _FENCE.match(line)
            assert fence is not None, f"{page}:{number}: {line!r} is no fence that the documents use"
            start, end = number, _end(lines, number, fence["ticks"], f"{page}:{number}")
            text = "\n".join(lines[start:end]) + "\n"
            yield Block(
                page, start, fence["language"], fence["title"] or "", text, directives, "\n".join(paragraph)
            )
            number, directives, paragraph = end + 1, {}, []
        elif line.strip():
            paragraph.append(line)
        elif paragraph and number < len(lines) and not lines[number].startswith(("```", "<!--")):
            paragraph = []


def _end(lines: list[str], start: int, ticks: str, place: str) -> int:
    for number in range(start, len(lines)):
        if lines[number].rstrip() == ticks:
            return number
    raise AssertionError(f"{place}: the block has no end")


def runs_on_spark(page: str) -> bool:
    """Whether a command on it starts Spark."""
    typed = (block.text for block in blocks(page) if block.is_run and block.language == "console")
    return any(_ON_SPARK.search(text) is not None for text in typed)


def takes_session(page: str) -> bool:
    """Whether its Python uses the variable `spark`."""
    run = (block for block in blocks(page) if block.is_run and block.language == "python")
    return any(not block.title and _SPARK_VARIABLE.search(block.text) is not None for block in run)


def needs_kafka(page: str, text: str | None = None) -> bool:
    return any("localhost:29092" in block.text for block in blocks(page, text) if block.is_run)


def is_slow(page: str) -> bool:
    return runs_on_spark(page) or takes_session(page) or needs_kafka(page)
