"""The paths of each model in the description of the API, with the schemas of its states and diffs."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from tidegate.topology.manifest import Manifest, ModelEntry

PREFIX = "/{model}"


def with_models(description: dict[str, Any], manifests: Iterable[Manifest]) -> dict[str, Any]:
    """Return the description with the paths of all models: `/{model}/{id}` again as `/workflows/{id}`. Of
    several apps with a model of one name, the first is described."""
    models: dict[str, ModelEntry] = {}
    for manifest in manifests:
        models = {**manifest.models, **models}
    paths: dict[str, Any] = dict(description["paths"])
    schemas: dict[str, Any] = {}
    for name, entry in sorted(models.items()):
        for path, item in description["paths"].items():
            if path == PREFIX or path.startswith(f"{PREFIX}/"):
                paths[f"/{name}{path.removeprefix(PREFIX)}"] = _of_model(item, name)
        schemas |= _schemas(name, entry)
        _show_state(paths.get(f"/{name}/{{id}}", {}), name)
    components = dict(description.get("components", {}))
    components["schemas"] = {**components.get("schemas", {}), **schemas}
    return {**description, "paths": paths, "components": components}


def _of_model(item: dict[str, Any], name: str) -> dict[str, Any]:
    """The operations of a path without the parameter `model`."""
    made: dict[str, Any] = copy.deepcopy(item)
    for operation in made.values():
        operation["tags"] = [name]
        operation["operationId"] = f"{operation.get('operationId', '')}_{name}"
        operation["parameters"] = [
            one for one in operation.get("parameters", []) if (one["in"], one["name"]) != ("path", "model")
        ]
    return made


def _schemas(name: str, entry: ModelEntry) -> dict[str, Any]:
    """The schemas of a model. Each is a resource with an id of its own, in which its `$defs` are found."""
    kinds = {"state": entry.state, "diff": entry.diff}
    return {f"{name}.{kind}": {"$id": f"tidegate:{name}.{kind}", **schema} for kind, schema in kinds.items()}


def _show_state(item: dict[str, Any], name: str) -> None:
    if "get" not in item:
        return
    text = {"type": "string"}
    frame = {
        "type": "object",
        "properties": {
            **dict.fromkeys(("id", "token", "digest"), text),
            "event": {"const": "state"},
            "state": {"$ref": f"#/components/schemas/{name}.state"},
        },
    }
    item["get"]["responses"]["200"] = {
        "description": "The state",
        "content": {"application/json": {"schema": frame}},
    }
