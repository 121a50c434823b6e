"""What OpenLineage takes, by its own schemas (spec/ of OpenLineage 1.54), in tests/data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jsonschema_rs import Draft202012Validator, Registry

SCHEMAS = Path(__file__).parents[1] / "data" / "openlineage"


def event_problems(event: Mapping[str, Any]) -> list[str]:
    """What the schemas say against an event of a run, and against its facets."""
    schemas = {path.stem: json.loads(path.read_text("utf-8")) for path in SCHEMAS.glob("*.json")}
    registry = Registry([(str(it["$id"]), it) for it in schemas.values()])
    parts = [
        (event["schemaURL"], event),
        *((it["_schemaURL"], it) for it in event["run"]["facets"].values()),
        *((it["_schemaURL"], it) for it in event["job"]["facets"].values()),
        *(
            (it["_schemaURL"], it)
            for dataset in (*event["inputs"], *event["outputs"])
            for it in dataset.get("facets", {}).values()
        ),
    ]
    return [
        f"{each.instance_path}: {each.message}"
        for reference, part in parts
        for each in Draft202012Validator(
            {"$ref": reference}, registry=registry, validate_formats=True
        ).iter_errors(part)
    ]
