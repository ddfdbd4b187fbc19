"""Which components of an app are the same as in its active generation, and what a manifest keeps of them.

A component that is the same keeps its generation, and so its tasks, positions, folders and topics. A changed
one gets the new generation: its stores and internal topics are created with new names, except for stores that
are carried over, and for models: their clients hold versions of them, which an upgrade continues.
"""

from __future__ import annotations

from msgspec.structs import replace

from tidegate.topology.entries import ComponentEntry, StoreEntry
from tidegate.topology.manifest import Manifest
from tidegate.topology.shared_tables import shared_tables


def unchanged_components(made: Manifest, known: Manifest) -> set[str]:
    """Return the ids of the components that are kept: they are the same, and share no table topic with one
    that is not."""
    same = same_components(made, known)
    return same - shared_tables(same, made, known).keys()


def same_components(made: Manifest, known: Manifest) -> set[str]:
    """Return the ids of the components that are the same. Code is compared only if both manifests have
    fingerprints by the same algorithm."""
    comparable = made.algorithm == known.algorithm != 0
    return {
        id
        for id, new in made.components.items()
        if id in known.components and _same(new, known.components[id], comparable=comparable)
    }


def is_same_app(made: Manifest, known: Manifest) -> bool:
    """Return whether all components are the same, and none was added or removed."""
    return unchanged_components(made, known) == made.components.keys() == known.components.keys()


def continued(made: Manifest, known: Manifest, *, again: bool = False) -> Manifest:
    """Return the manifest with what it keeps of the active one. If nothing changed, that is all but source
    lines and what is only displayed. With `again` every component counts as changed."""
    kept = set() if again else unchanged_components(made, known)
    same = not again and is_same_app(made, known)
    models = made.models.keys() & known.models.keys()
    stores = {name: _store(name, store, kept, models, known) for name, store in made.stores.items()}
    components = {
        id: replace(entry, generation=known.components[id].generation) if id in kept else entry
        for id, entry in made.components.items()
    }
    home = {
        made.nodes[node].name: id
        for id, entry in made.components.items()
        for sub in entry.subtopologies
        for node in sub.nodes
    }
    return replace(
        made,
        generation=known.generation if same else made.generation,
        components=components,
        stores=stores,
        internal={
            name: known.internal[name] if home[name] in kept and name in known.internal else topic
            for name, topic in made.internal.items()
        },
        models={
            name: replace(model, changelog=stores[name].changelog or "")
            for name, model in made.models.items()
        },
        starts={
            topic: [*known.starts.get(topic, []), *starts[len(known.starts.get(topic, [])) :]]
            for topic, starts in made.starts.items()
        },
    )


def _same(new: ComponentEntry, old: ComponentEntry, *, comparable: bool) -> bool:
    if not old.structure:  # an earlier version of tidegate started it: see `older`
        return True
    return new.digest == old.digest if comparable else new.structure == old.structure


def _store(name: str, store: StoreEntry, kept: set[str], models: set[str], known: Manifest) -> StoreEntry:
    before = known.stores.get(name)
    if before is None or not (store.component in kept or store.role == "carried" or name in models):
        return store
    if (before.changelog is None) != (store.changelog is None):
        return store
    return replace(store, changelog=before.changelog, born=before.born)
