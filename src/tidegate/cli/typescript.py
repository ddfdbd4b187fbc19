"""TypeScript types from JSON schemas."""

from __future__ import annotations

import re
from typing import Any

import msgspec

Schema = dict[str, Any]
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_PLAIN = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "{ [key: string]: unknown }",
    "array": "unknown[]",
}


def declarations(types: dict[str, Schema]) -> str:
    """Return one `export type` per name, and one per definition that the schemas refer to."""
    defined: dict[str, Schema] = {}
    for schema in types.values():
        defined |= schema.get("$defs", {})
    own = {
        name: {key: one for key, one in schema.items() if key != "$defs"} for name, schema in types.items()
    }
    named = {_name(name): schema for name, schema in defined.items()}
    named |= {name: schema for name, schema in own.items() if _type(schema) != name}
    return "".join(f"export type {name} = {_type(schema)};\n" for name, schema in named.items())


def type_name(name: str) -> str:
    """Return the name of a model as the name of a type: `work-flows` as WorkFlows."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", name)) or "Model"


def _type(schema: Schema, indent: str = "") -> str:
    for key, one in (("$ref", _reference), ("const", _constant), ("enum", _constants), ("anyOf", _union)):
        if key in schema:
            return one(schema[key], indent)
    match schema.get("type"):
        case list() as several:
            return " | ".join(_PLAIN.get(one, "unknown") for one in several)
        case "object":
            return _object(schema, indent)
        case "array":
            return _array(schema, indent)
        case str() as plain:
            return _PLAIN.get(plain, "unknown")
    return "unknown"


def _reference(target: str, _: str) -> str:
    return _name(target.rpartition("/")[2])


def _constant(value: Any, _: str) -> str:
    return msgspec.json.encode(value).decode()


def _constants(values: list[Any], indent: str) -> str:
    return " | ".join(_constant(value, indent) for value in values)


def _union(parts: list[Schema], indent: str) -> str:
    return " | ".join(dict.fromkeys(_type(part, indent) for part in parts))


def _object(schema: Schema, indent: str) -> str:
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    if not fields:
        return (
            f"{{ [key: string]: {_type(others, indent)} }}" if isinstance(others, dict) else _PLAIN["object"]
        )
    inner = f"{indent}  "
    required = schema.get("required", [])
    # A state is written whole: what has a default is there, too. A diff may leave it out.
    lines = [
        f"{inner}{_key(name)}{'' if name in required else '?'}: {_type(one, inner)};\n"
        for name, one in fields.items()
    ]
    return f"{{\n{''.join(lines)}{indent}}}"


def _array(schema: Schema, indent: str) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(_type(one, indent) for one in schema['prefixItems'])}]"
    items = _type(schema.get("items") or {}, indent)
    return f"({items})[]" if " | " in items else f"{items}[]"


def _name(name: str) -> str:
    return name if _NAME.fullmatch(name) else type_name(name)


def _key(name: str) -> str:
    return name if _NAME.fullmatch(name) else msgspec.json.encode(name).decode()
