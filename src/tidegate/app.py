"""An app: an id, a topology and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from tidegate.config.importing import is_importing
from tidegate.dsl.checks import check_topic
from tidegate.dsl.draft import Draft
from tidegate.dsl.stream import Stream
from tidegate.dsl.table import Table
from tidegate.settings import Settings
from tidegate.stores import of_table
from tidegate.topics import TableTopic, Topic
from tidegate.topology.graph import Topology
from tidegate.topology.node import NodeKind, OnError
from tidegate.topology.validate import validated

if TYPE_CHECKING:
    from tidegate.spark.running import Running

K = TypeVar("K")
V = TypeVar("V")


class App:
    """One service. Declare streams and tables on it; `build` checks them and returns the topology."""

    def __init__(self, id: str, settings: Settings | None = None) -> None:  # noqa: A002 - what users call it
        self._plan = Draft(id)
        self._settings = settings
        self._sources: dict[str, int] = {}

    @property
    def id(self) -> str:
        return self._plan.app

    @overload
    def stream(self, topic: Topic[K, V], *, on_error: OnError | None = None) -> Stream[K, V]: ...
    @overload
    def stream(self, topic: TableTopic[K, V], *, on_error: OnError | None = None) -> Stream[K, V | None]: ...
    def stream(self, topic: Any, *, on_error: OnError | None = None) -> Stream[Any, Any]:
        """Read the records of a topic. For a table topic these are its changes: None is a deleted row."""
        check_topic(NodeKind.SOURCE, topic, "app.stream")
        node = self._source(NodeKind.SOURCE, topic, on_error)
        return Stream(self._plan, node, topic.key_serde, topic.value_serde)

    def table(
        self, topic: TableTopic[K, V], store: str | None = None, *, on_error: OnError | None = None
    ) -> Table[K, V]:
        """Read the rows of a table topic into a store, named like the topic unless `store` is passed."""
        check_topic(NodeKind.TABLE, topic, "app.table", rows=True)
        builder = of_table(store or topic.name, topic.value_serde, topic.key_serde)
        node = self._source(NodeKind.TABLE, topic, on_error, builder)
        return Table(self._plan, node, topic.key_serde, topic.value_serde)

    def attach(self, settings: Settings) -> None:
        """Set the settings that the app was created with, unless it has some: they go into the manifest."""
        if self._settings is None:
            self._settings = settings

    def build(self) -> Topology:
        """Check and return the topology. Raises TopologyError with the line of the mistake."""
        counted = self._settings.counted() if self._settings is not None else {}
        return validated(self._plan.app, self._plan.nodes, counted)

    def start(self, spark: Any, **options: Any) -> Running:
        """Run on a Spark session; returns at once. Options: `name="module:app"` where executors find the app,
        `slots`, `until_caught_up`, `config`."""
        from tidegate.spark.running import start  # the only place that needs Spark

        return start(self, spark, **options)

    def run(self, **options: Any) -> None:
        """Run from a script, `python shop.py`: start Spark by `tidegate.toml`, and return when the app has
        ended. Ctrl-C commits, closes and ends. Options: `name`, `slots`, `until_caught_up`, `config` as in
        `start`.

        Executors import the script as a module to find the app; the call does nothing there."""
        if is_importing():
            return
        from tidegate.spark.script import run

        run(self, **options)

    def _source(self, kind: NodeKind, topic: Any, on_error: OnError | None, builder: Any = None) -> int:
        known = self._sources.get(topic.name)
        if known is None:
            stores = [builder] if builder is not None else []
            node = self._plan.add(kind, topic=topic, stores=stores, on_error=on_error)
            self._sources[topic.name] = node.id
            return node.id
        node = self._plan.nodes[known]
        if node.topic is not topic or node.kind is not kind or on_error != node.on_error:
            raise self._plan.refused(
                "source-declared-twice",
                self._plan.add(kind, topic=topic),
                f"topic {topic.name!r} is already read at {node.location}, in another way",
                "declare the topic once, read it once, and use that stream or table twice",
            )
        return known
