"""The pages of the documentation site that are made from the code: HTTP routes, the result document, settings."""

import json
from collections.abc import Iterator
from typing import Any

from maabo_dist.contract.result import load_schema
from maabo_dist.settings import MiningSettings, RepeatSettings, TableSettings
from scheduler.api.app import describe_api

Schema = dict[str, Any]

_HTTP = """# HTTP routes

All routes of the [HTTP API](../http-api.md), from its OpenAPI document, which a server returns at `/v1/openapi.json`.
Errors are [problem documents](../http-api.md#problems). The types of bodies are listed [below](#types).
"""
_RESULT = """# Result document

What `maabo mine --json`, the HTTP API and the Python client return. `maabo_dist.contract.result.load_schema()` returns
this JSON Schema (draft 2020-12); its full text is [at the end](#schema) of the page. Fields marked *optional* may be
missing.
"""
_SETTINGS = """# Settings

The same settings work everywhere: as options of [`maabo mine`](../cli.md) and `maabo submit` (`min_samples` is
`--min-samples`), as parameters of `RuleMiner`, as arguments of [`client.submit`](../client.md), and in the objects
`table` and `settings` of a [job](http.md#jobrequest). Settings of a cluster's processes are [environment
variables](../cluster.md#settings).
"""


def describe_settings() -> str:
    """Return the page about the settings of a table, a search and its repeats."""
    titles = {TableSettings: "Table", MiningSettings: "Search and findings", RepeatSettings: "Repeats"}
    lines = [_SETTINGS]
    for model, title in titles.items():
        schema = model.model_json_schema()
        lines += [f"## {title}", "", f"`maabo_dist.{model.__name__}`", "", *_table_of_fields(schema, anchor=None)]
    return "\n".join(lines)


def describe_result() -> str:
    """Return the page about the JSON document with the rules."""
    schema = load_schema()
    definitions = schema.pop("$defs")
    lines = [_RESULT, "## The document", "", *_table_of_fields(schema), *_describe_types(definitions, level=2)]
    text = json.dumps(load_schema(), indent=2, ensure_ascii=False)
    return "\n".join([*lines, "## Schema", "", "```json", text, "```", ""])


def describe_http() -> str:
    """Return the page about the routes."""
    document = describe_api()
    lines, tag = [_HTTP], ""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if operation["tags"][0] != tag:
                tag = operation["tags"][0]
                lines += [f"## {tag.capitalize()}", ""]
            lines += _describe_operation(f"{method.upper()} {path}", operation)
    lines += ["## Types", "", *_describe_types(document["components"]["schemas"], level=3)]
    return "\n".join(lines)


def _describe_operation(title: str, operation: Schema) -> Iterator[str]:
    yield from (f"### `{title}`", "", operation.get("description", ""), "")
    parameters = operation.get("parameters", [])
    if parameters:
        yield from ("| parameter | in | type | meaning |", "|---|---|---|---|")
        for parameter in parameters:
            meaning = parameter.get("description") or parameter["schema"].get("description")
            yield _row(
                f"`{parameter['name']}`", parameter["in"], _type(parameter["schema"]), _meaning(meaning, parameter)
            )
        yield ""
    body = operation.get("requestBody", {}).get("content", {})
    if body:
        yield from (f"Body: {'; '.join(_content(body))}.", "")
    yield from ("| status | meaning | body |", "|---|---|---|")
    for status, response in operation["responses"].items():
        meaning = response["description"].replace("Successful Response", "Success")
        yield _row(f"`{status}`", meaning, "; ".join(_content(response.get("content", {}))))
    yield ""


def _content(content: Schema) -> Iterator[str]:
    for media_type, body in content.items():
        name = _type(body.get("schema", {}))
        yield f"{name}, `{media_type}`" if name else f"`{media_type}`"


def _describe_types(definitions: Schema, level: int) -> Iterator[str]:
    for name, schema in sorted(definitions.items()):
        yield from (f"{'#' * level} {name}", "", schema.get("description", ""), "")
        if "enum" in schema:
            yield from (f"One of {_type(schema)}.", "")
        if schema.get("properties"):
            yield from _table_of_fields(schema)


def _table_of_fields(schema: Schema, anchor: str | None = "#") -> Iterator[str]:
    """Yield the fields of an object; types link to their sections unless `anchor` is None."""
    yield from ("| field | type | meaning |", "|---|---|---|")
    for name, field in schema["properties"].items():
        details = {"required": anchor is None or name in schema.get("required", ()), "schema": field}
        yield _row(f"`{name}`", _type(field), _meaning(field.get("description"), details))
    yield ""


def _meaning(description: str | None, details: Schema) -> str:
    parts = [description or ""]
    if not details.get("required"):
        parts.append("*Optional.*")
    default = details["schema"].get("default")
    if default not in (None, [], {}):
        parts.append(f"Default: `{json.dumps(default, ensure_ascii=False)}`.")
    return " ".join(filter(None, parts))


def _type(schema: Schema) -> str:
    """Return the type of a value in words, with a link to the section of a named type."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(filter(None, map(_type, schema[key]))))
    if "const" in schema or "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "")
    if kind == "array":
        items = _type(schema.get("items", {})) or " and ".join(map(_type, schema.get("prefixItems", [])))
        return f"array of {items}" if items else "array"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties']) or 'any value'}"
    return kind + _limits(schema)


def _limits(schema: Schema) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = [f"{sign} {schema[key]}" for key, sign in signs.items() if key in schema]
    return f" {', '.join(limits)}" if limits else ""


def _row(*cells: str) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
