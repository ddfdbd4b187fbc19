"""Find what a sink copies: changelogs of models by manifests, table topics by the app with their types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.errors import ConfigError
from tidegate.log.protocol import Log
from tidegate.runtime.topics.manifests import manifests
from tidegate.sinks.layout import Layout, ModelLayout, TableLayout
from tidegate.sinks.settings import SinkSettings
from tidegate.topics import TableTopic
from tidegate.topology.graph import Topology
from tidegate.topology.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Source:
    """A topic, the name of what it holds, and the layout of its rows."""

    topic: str
    name: str
    layout: Layout


def find_sources(log: Log, settings: SinkSettings, topology: Topology | None) -> list[Source]:
    """Return the models and table topics of a sink. `topology` is that of the app, if one is named.

    Raises ConfigError: `no-such-model`, `which-app`, `no-such-table`, `bad-column`."""
    found = list(manifests(log)) if settings.models else []
    own = [one for one in found if topology is not None and one.app == topology.app]
    models = (_model(name, own or found) for name in settings.models)
    declared = {} if topology is None else declared_tables(topology)
    tables = (_table(name, declared, topology) for name in settings.tables)
    return [*models, *tables]


def declared_tables(topology: Topology) -> dict[str, TableTopic[Any, Any]]:
    """Return the table topics that an app reads and writes, by name."""
    topics = (node.topic for node in topology.nodes.values())
    return {topic.name: topic for topic in topics if isinstance(topic, TableTopic)}


def _model(name: str, apps: Iterable[Manifest]) -> Source:
    having = [one for one in apps if name in one.models]
    if not having:
        known = ", ".join(sorted({model for one in apps for model in one.models})) or "none"
        raise ConfigError("no-such-model", f"no app on this log has a model {name!r}", f"there is: {known}")
    if len(having) > 1:
        listed = ", ".join(one.app for one in having)
        hint = 'name the app in the section of the sink: app = "module:name"'
        raise ConfigError("which-app", f"more than one app has a model {name!r}: {listed}", hint)
    return Source(having[0].models[name].changelog, name, ModelLayout())


def _table(name: str, declared: Mapping[str, TableTopic[Any, Any]], topology: Topology | None) -> Source:
    if name not in declared:
        app = "no app is named" if topology is None else f"app {topology.app!r} has no table topic {name!r}"
        known = ", ".join(sorted(declared))
        hint = f"it has: {known}" if declared else 'set app = "module:name"; it declares the TableTopic'
        raise ConfigError("no-such-table", f"the types of topic {name!r} are not known: {app}", hint)
    return Source(name, name, TableLayout(declared[name]))
