"""The API's types for the page, made from the OpenAPI document: `page/src/api/types.ts`.

`python -m pilothouse.faces.console.api_types` prints them; a test holds the file to them.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from pilothouse.faces.http.document import make_document

__all__ = ["api_types"]

_HEAD = (
    "// Made from the OpenAPI document by `python -m pilothouse.faces.console.api_types`.\n"
    "// Members that a value may leave out have their default then.\n"
)
_PLAIN = {
    "boolean": "boolean",
    "integer": "number",
    "null": "null",
    "number": "number",
    "string": "string",
}
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


def api_types() -> str:
    """Return every schema of the document as a TypeScript interface or type."""
    schemas: dict[str, Any] = make_document("")["components"]["schemas"]
    return _HEAD + "".join(_declare(name, schema) for name, schema in sorted(schemas.items()))


def _declare(name: str, schema: dict[str, Any]) -> str:
    if "properties" not in schema:
        return f"\nexport type {name} = {_type(schema)};\n"
    return f"\n{_comment(schema, '')}export interface {name} {_members(schema, '')}\n"


def _members(schema: dict[str, Any], indent: str) -> str:
    required = set(schema.get("required", ()))
    deeper = indent + "  "
    lines = [
        f"{_comment(member, deeper)}{deeper}{_key(name)}"
        f"{'' if name in required else '?'}: {_type(member, deeper)};\n"
        for name, member in schema["properties"].items()
    ]
    return "{\n" + "".join(lines) + indent + "}"


def _comment(schema: dict[str, Any], indent: str) -> str:
    words = " ".join(str(schema.get("description", "")).split()).replace("*/", "* /")
    return f"{indent}/** {words} */\n" if words else ""


def _key(name: str) -> str:
    return name if _NAME.match(name) else json.dumps(name)


def _type(schema: Any, indent: str = "") -> str:
    match schema:
        case {"$ref": str(ref)}:
            return ref.rpartition("/")[2]
        case {"anyOf": [*options]} | {"oneOf": [*options]}:
            return " | ".join(dict.fromkeys(_type(each, indent) for each in options))
        case {"enum": [*values]}:
            return " | ".join(json.dumps(each) for each in values)
        case {"const": value}:
            return json.dumps(value)
        case {"type": "array"}:
            return _array(schema, indent)
        case {"properties": _}:
            return _members(schema, indent)
        case {"type": "object"}:
            return f"Record<string, {_type(schema.get('additionalProperties'), indent)}>"
        case {"type": str(name)}:
            return _PLAIN.get(name, "unknown")
        case _:
            return "unknown"


def _array(schema: dict[str, Any], indent: str) -> str:
    if "prefixItems" in schema:
        return "[" + ", ".join(_type(each, indent) for each in schema["prefixItems"]) + "]"
    item = _type(schema.get("items", {}), indent)
    return f"({item})[]" if "|" in item or "{" in item else f"{item}[]"


if __name__ == "__main__":
    sys.stdout.write(api_types())
