"""An app: an id, a topology and settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from tidegate.config.importing import is_importing
from tidegate.dsl.checks import check_topic
from tidegate.dsl.draft import Draft
from tidegate.dsl.inferred import type_of
from tidegate.dsl.location import here
from tidegate.dsl.model import MAX_STATE, ModelOptions, add_model
from tidegate.dsl.stream import Stream
from tidegate.dsl.table import Table
from tidegate.dsl.types_of import UNKNOWN
from tidegate.settings import Settings
from tidegate.stores import of_table
from tidegate.topics import TableTopic, Topic
from tidegate.topology.graph import Topology
from tidegate.topology.node import Node, NodeKind, OnError, mistake
from tidegate.topology.validate import validated

if TYPE_CHECKING:
    from tidegate.spark.running import Running

K = TypeVar("K")
V = TypeVar("V")
Reducer = TypeVar("Reducer", bound=Callable[[Any, Any], Any])


class App:
    """One service. Declare streams and tables on it; `build` checks them and returns the topology."""

    def __init__(self, id: str, settings: Settings | None = None) -> None:
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

    def model(
        self,
        name: str,
        *,
        initial: Callable[[], Any],
        source: Topic[str, Any] | TableTopic[str, Any] | Stream[str, Any] | None = None,
        hash: Callable[[Any, str, Any], str] | None = None,  # noqa: A002 - what users call it
        max_state: int = MAX_STATE,
        partitions: int | None = None,
        on_error: OnError | None = None,
    ) -> Callable[[Reducer], Reducer]:
        """Declare a model by its reducer, a pure function from a state and a diff to the next state:

            @app.model("workflows", source=EVENTS, initial=Workflow)
            def workflows(state: Workflow, event: Event) -> Workflow: ...

        Each key of the source is an id of the model, which begins with `initial()`. A reducer that returns
        None removes the id, and so does a deleted row of a table topic. Servers show the states under
        `/workflows`. Without a source, diffs come by HTTP only; then `partitions` is the number of its
        partitions. A diff of a derived stream cannot come by HTTP.

        `hash(state, hash, diff)` returns the hash of the next version; by default it is the SHA-256 of the
        last hash and the diff. A state of more than `max_state` bytes of JSON is refused. `on_error` is the
        policy for diffs of a topic; that of a derived stream is declared with its source.
        """

        def declare(reducer: Reducer) -> Reducer:
            options = ModelOptions(name, initial, reducer, hash, max_state, partitions, on_error)
            parent = None if source is None else self._diffs(source, options)
            diff: Any = UNKNOWN if parent is None else parent._value
            add_model(
                self._plan,
                None if parent is None else parent._node,
                options,
                diff,
                appendable=not isinstance(source, Stream),
            )
            return reducer

        return declare

    def _diffs(self, source: Any, options: ModelOptions) -> Stream[str, Any]:
        """Return the stream of a model's diffs."""
        node = Node(-1, NodeKind.MODEL, (), here(), options.name)
        if not isinstance(source, Stream):
            check_topic(NodeKind.MODEL, source, "app.model")
        elif options.on_error is not None:
            hint = "pass it where the stream begins: app.stream(TOPIC, on_error=...)"
            raise mistake("bad-option", node, "on_error= of a model over a derived stream", hint)
        elif source._plan is not self._plan:
            raise mistake("other-app", node, "a stream of another app is folded", "use streams of one app")
        found = source if isinstance(source, Stream) else self.stream(source, on_error=options.on_error)
        if options.partitions is not None:
            hint = "leave it out: a model has as many partitions as its source"
            raise mistake("bad-option", node, "partitions= of a model with a source", hint)
        if found._rekeyed:
            raise self._plan.misplaced(node, "diffs of one id may lie in several partitions")
        if type_of(found._key) is not str:
            message = "the keys of its source are its ids, and must be text"
            hint = "use key=str, or group_by(name, function) before it"
            raise mistake("wrong-key-type", node, message, hint)
        return found

    def attach(self, settings: Settings) -> None:
        """Set the settings that the app was created with, unless it has some: they go into the manifest."""
        if self._settings is None:
            self._settings = settings

    def build(self) -> Topology:
        """Check and return the topology. Raises TopologyError with the line of the mistake."""
        counted = self._settings.counted() if self._settings is not None else {}
        return validated(self._plan.app, self._plan.nodes, counted, self._plan.module)

    def start(self, spark: Any, **options: Any) -> Running:
        """Run on a Spark session; returns at once. Options: `name="module:app"` where executors find the app,
        `slots`, `until_caught_up`, `config`, and `sinks=["NAME"]`: the sections [sinks.NAME] of tidegate.toml
        that threads of this process fill."""
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
