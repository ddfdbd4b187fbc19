"""A topology described as text, JSON and a picture."""

from __future__ import annotations

import json

from tidegate import App, TableTopic, Topic
from tidegate.topology.describe import as_dict, as_mermaid, as_text
from tidegate.topology.graph import Topology


def wordcount() -> Topology:
    app = App("wordcount")
    lines, counts = Topic("lines", str), TableTopic("word-counts", int)
    app.stream(lines).group_by("by-word", lambda line: line).count("counts").to(counts)
    return app.build()


def test_the_text_names_every_step_with_its_line() -> None:
    text = as_text(wordcount())
    assert text.splitlines()[0] == "app wordcount"
    for said in (
        'source "lines"',
        'repartition "by-word"',
        "through wordcount-by-word-repartition",
        "store counts",
        "test_describe.py:",
    ):
        assert said in text


def test_the_json_has_topics_stores_and_subtopologies() -> None:
    found = json.loads(json.dumps(as_dict(wordcount())))
    [component] = found["components"]
    assert [sub["reads"] for sub in component["subtopologies"]] == [
        ["lines"],
        ["wordcount-by-word-repartition"],
    ]
    stores = [
        store
        for sub in component["subtopologies"]
        for node in sub["nodes"]
        for store in node.get("stores", [])
    ]
    assert stores == [{"name": "counts", "kind": "key-value", "changelog": "wordcount-counts-changelog"}]


def test_the_picture_joins_every_node_to_what_it_reads_and_writes() -> None:
    picture = as_mermaid(wordcount())
    assert picture.startswith("flowchart LR")
    declared = {
        line.strip().split("[")[0] for line in picture.splitlines() if "[" in line and "subgraph" not in line
    }
    for line in picture.splitlines():
        if "-->" in line:
            assert {end.strip() for end in line.split("-->")} <= declared
    assert picture.count("-->") == 7
    assert picture.count("subgraph") == picture.count("  end")
