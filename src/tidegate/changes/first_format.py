"""Compare with a manifest of the first format, which had the kinds, names and stores of steps only."""

from __future__ import annotations

from msgspec.structs import replace

from tidegate.topology.manifest import Manifest, NodeEntry


def is_of_first_format(manifest: Manifest) -> bool:
    """Whether an earlier version of tidegate wrote the manifest: then its components have no digests."""
    return any(not component.structure for component in manifest.components.values())


def in_first_format(manifest: Manifest, older: Manifest) -> Manifest:
    """Return the manifest with only what the older one has. The very first ones had no stores of steps."""
    with_stores = any(node.stores for node in older.nodes)
    return replace(
        manifest,
        nodes=[
            NodeEntry(
                kind=node.kind,
                name=node.name,
                topic=node.topic,
                location=node.location,
                stores=node.stores if with_stores else [],
            )
            for node in manifest.nodes
        ],
        stores={name: replace(store, options={}) for name, store in manifest.stores.items()},
    )
