"""What commands print with `-o json`, and what the API answers, as JSON to compare with.

No cluster is asked: the state is a recorded one, the status is made up. `python -m support.golden`
in the folder `tests` writes the file again, for a change that is meant: read its diff.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from aggregator import __version__
from aggregator.api.latest_status import StatusHolder
from aggregator.cli.main import app
from aggregator.config import load_text
from aggregator.engine.control.commands import Control
from support.recorded import DATA, recorded_state
from support.rest import PlayedEngine, ask
from support.serving import app_over, served
from support.statuses import whole_status

GOLDEN = DATA / "golden.json"
SPAN = "--since 2026-01-01T00:00:00Z --until 2026-02-02T00:00:00Z"
STOPPED = (
    "status",
    "lag --no-bytes",
    "sources list",
    "positions show",
    "positions show --version 2",
    "positions history",
    "positions history --source eu --topic orders --partition 0",
    "gaps",
    "gaps --open --source us",
    "backfill list",
    f"events {SPAN}",
    f"events {SPAN} --kind gap",
    f"history {SPAN}",
    f"history {SPAN} --topic orders",
    f"history {SPAN} --step 5m",
    "wait --topic orders --until 2026-01-31T11:00:00Z",
    "wait --topic orders --source eu --until 2026-01-31T12:00:00Z",
    "config",
    "gaps accept 43bfda889d403a2c",
    "gaps accept --source eu",
    "pause eu --topic payments",
    "resume us",
    "backfill cancel b1",
    "sources add asia --servers 127.0.0.1:12 --topics orders",
    "sources remove asia",
    "sources reset asia",
)
"""Commands beside a state that nothing runs on, one after the other."""
RUNNING = (
    "status",
    "lag --no-bytes",
    "sources list",
    "backfill list",
    f"events {SPAN}",
    "wait --topic hub.t0 --until 2025-12-31T00:00:00Z",
    "pause s0",
    "resume s0",
    "sources restart s0",
)
ASKED = (
    *("/", "/health", "/alive", "/api/status", "/api/lag", "/api/config", "/api/overview"),
    *("/api/sources/s0", "/api/gaps", "/api/gaps?only_open=true&source=us", "/api/checkpoints"),
    *("/api/recovery", "/api/lanes", "/api/audits", "/api/verify", "/api/incidents"),
    "/api/history?since=2026-01-01T00:00:00Z&until=2026-02-02T00:00:00Z",
    "/api/events?since=2026-01-01T00:00:00Z&until=2026-02-02T00:00:00Z",
    *("/api/backfills", "/api/hub/topics", "/api/hub/topics/hub.t0", "/api/hub/topics/no"),
    *("/connectors", "/connectors?expand=status&expand=info", "/connectors/s0"),
    *("/connectors/s0/status", "/connectors/s0/config", "/connectors/s0/tasks"),
    *("/connectors/s0/topics", "/connectors/s0/offsets", "/connectors/no"),
    *("/connector-plugins", "/admin/loggers"),
)
"""What is asked of the API, always in this order."""
DESCRIPTION = "/api/openapi.json"
NEW = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?")
KEPT = ("2025-12", "2026-01")
"""Moments of the record and of the status; all others are those of this call."""


def gathered(folder: Path) -> dict[str, Any]:
    """All of it, by what was asked. `folder` is empty."""
    state = recorded_state(folder)
    sets = [
        "name=central",
        "hub.bootstrap_servers=127.0.0.1:9",
        *(f"sources.{alias}.bootstrap_servers=127.0.0.1:10" for alias in ("eu", "s0", "us")),
        *(f"sources.{alias}.topics.include=orders" for alias in ("eu", "s0", "us")),
        "supervision.connect_timeout=100ms",
        f"checkpoint.path={state}",
    ]
    config = load_text("", sets, {})
    control = Control(config, lambda added: load_text("", sets, {}, added=added))
    holder, status = StatusHolder(), whole_status()
    holder.put(status.at, status.phase, lambda: status)
    found: dict[str, Any] = {}
    engine = PlayedEngine(control)
    try:
        with served(app_over(control, holder)) as server:
            for path in ASKED:
                code, answer = ask("GET", server.url + path)
                found[f"GET {path}"] = {"code": code, "answer": answer}
            _, described = ask("GET", server.url + DESCRIPTION)
            found["all calls"] = _calls(described)
            listen = server.url.removeprefix("http://")
            for words in RUNNING:
                found[f"running: {words}"] = _printed(words, [*sets, f"api.listen={listen}"])
    finally:
        engine.stop()
    for words in STOPPED:
        found[f"stopped: {words}"] = _printed(words, [*sets, "api.listen=off"])
    text = json.dumps(found, ensure_ascii=False)
    text = text.replace(str(folder), "FOLDER").replace(listen, "LISTEN")
    text = text.replace(__version__, "VERSION")
    return {name: _lasting(value) for name, value in json.loads(text).items()}


def _printed(words: str, sets: list[str]) -> dict[str, Any]:
    flags = [part for item in sets for part in ("--set", item)]
    done = CliRunner().invoke(app, [*words.split(), "-o", "json", *flags])
    assert done.exit_code in (0, 3, 4), f"{words}: {done.output}"
    return {"code": done.exit_code, "printed": json.loads(done.stdout)}


def _lasting(value: Any) -> Any:
    """The value without what is another one at each call."""
    match value:
        case dict():
            return {key: _lasting(it) for key, it in value.items()}
        case list():
            return [_lasting(it) for it in value]
        case str():
            return NEW.sub(lambda at: at[0] if at[0].startswith(KEPT) else "NOW", value)
    return value


def _calls(described: Any) -> dict[str, list[str]]:
    """Each call, with its parameters and the fields of what it takes and answers."""
    schemas = described["components"]["schemas"]
    found = {}
    for path, methods in described["paths"].items():
        for method, call in methods.items():
            fields = {f"?{it['name']}" for it in call.get("parameters", ())}
            bodies = {"takes": call.get("requestBody", {}), "200": call["responses"].get("200", {})}
            for name, body in bodies.items():
                for content in body.get("content", {}).values():
                    fields |= set(_fields(content.get("schema", {}), schemas, name))
            found[f"{method.upper()} {path}"] = sorted(fields)
    return found


def _fields(schema: Any, schemas: Any, name: str) -> Iterator[str]:
    """The field `name` and all below it, whatever their models are called."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "type" in schema:
        yield f"{name}: {schema['type']}"
    elif not schema.keys() & {"anyOf", "allOf"}:
        yield name
    for one in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
        yield from _fields(one, schemas, name)
    for key, below in schema.get("properties", {}).items():
        yield from _fields(below, schemas, f"{name}.{key}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _fields(schema[key], schemas, f"{name}[]")


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder:
        found = gathered(Path(folder))
    GOLDEN.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
