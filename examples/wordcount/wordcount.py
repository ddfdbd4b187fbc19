"""How often each word was said."""

import re

from tidegate import App, TableTopic, Topic

LINES = Topic("lines", str)  # events. Keys are str unless key= says otherwise
COUNTS = TableTopic("word-counts", int)  # rows: one per key, compacted, corrected by upgrades
app = App("wordcount")


def words(line: str) -> list[str]:  # functions take the value
    return re.findall(r"\w+", line.lower())


(
    app.stream(LINES)
    .flat_map(words)  # value type str: from the return annotation
    .group_by("by-word", lambda word: word)  # owns topic wordcount-by-word-repartition
    .count("counts")  # owns store counts, topic wordcount-counts-changelog
    .to(COUNTS)
)
