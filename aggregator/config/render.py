"""Renders the config: as YAML, as JSON Schema, as a table of options."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from aggregator.config.keys import Option, Shape, fill, options
from aggregator.config.mask import masked
from aggregator.config.references import escape
from aggregator.config.schema import Config
from aggregator.config.schema_errors import duration, expected
from aggregator.config.topics import TopicOverride, TopicRules


@dataclass(frozen=True, slots=True)
class OptionRow:
    """One option for the docs: `sources.<alias>.start`, what it takes, its default, its meaning."""

    path: str
    type: str
    default: str
    description: str


def to_yaml(config: Config) -> str:
    """The whole config, defaults included, as YAML that `load_text` turns into an equal config.

    Secrets stand in it as they are: `masked_yaml` is for the eyes.
    """
    return dump(_escaped(config.model_dump(mode="json"), ""))


def masked_yaml(config: Config) -> str:
    """The whole config, defaults included, as YAML with each secret as `********`."""
    return dump(masked(config))


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a config file, for editors and other tools."""
    schema = Config.model_json_schema(ref_template="#/$defs/{model}")
    definitions: dict[str, Any] = schema.pop("$defs")
    definitions["TopicOverride"] = TopicOverride.model_json_schema()
    overrides = definitions["TopicsConfig"]["properties"]["overrides"]
    overrides["additionalProperties"] = {"$ref": "#/$defs/TopicOverride"}
    for node in (schema, *definitions.values()):
        for part in node["properties"].values():
            if part.get("additionalProperties") == {"type": "string"}:
                # Numbers and booleans are taken as the text that Kafka and Spark expect.
                part["additionalProperties"] = {"type": ["string", "number", "boolean"]}
    start = definitions["SourceConfig"]["properties"]["start"]
    start["type"] = ["string", "integer"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Configuration of an aggregation",
        "$defs": definitions,
    }


def options_table() -> list[OptionRow]:
    """Every option in the order of the schema, parents before children."""
    return [
        OptionRow(
            path=".".join(fill(found.path, ())),
            type=_type(found),
            default=_default(found),
            description=found.field.description or "",
        )
        for found in options()
    ]


def _type(found: Option) -> str:
    match found.shape:
        case Shape.NODE:
            return "a group of options"
        case Shape.NODES | Shape.RULES:
            return "a map of groups of options"
        case _:
            return expected(found.field)


def _default(found: Option) -> str:
    if found.field.is_required():
        return "required"
    if "overrides" in found.path[:-1] and found.path[-1] in TopicRules.model_fields:
        return "as under topics"
    value = found.field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "none"
    if found.shape is Shape.NODE:
        return "its defaults"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return duration(value)
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return str(value) if isinstance(value, str | int) and value != "" else "none"


def _escaped(item: Any, path: str) -> Any:
    if isinstance(item, dict):
        return {key: _escaped(v, f"{path}.{key}" if path else key) for key, v in item.items()}
    if isinstance(item, list):
        return [_escaped(value, f"{path}[{at}]") for at, value in enumerate(item)]
    return escape(item, path) if isinstance(item, str) else item


class _Dumper(yaml.SafeDumper):
    """Writes text so that it is read back as it is: certificates line by line, odd characters
    (other line breaks, controls) escaped, which PyYAML alone would fold.
    """


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    if not text.replace("\n", "").isprintable():
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)


def dump(tree: Mapping[str, Any]) -> str:
    """Plain data as YAML; every text is read back as it is."""
    text: str = yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text
