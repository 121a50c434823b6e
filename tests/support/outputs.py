"""All output of an instance: answers, pages, streams and tables, as text by where it is found."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow.parquet as pq

import aggregator

SECONDS = 120.0
PAGES = Path(aggregator.__file__).parent / "api" / "ui"
STREAM = "/api/events/stream"
LIVE = "/api/live/stream"
SPARK_PAGES = ("environment", "jobs", "stages", "storage", "executors", "SQL", "StreamingQuery")
SPARK_DOCUMENTS = (
    *("environment", "jobs", "stages?details=true", "allexecutors", "storage/rdd"),
    "sql?details=true&planDescription=true&length=1000",
)


def answer_of(url: str, headers: Mapping[str, str], method: str = "GET", body: Any = None) -> str:
    """An answer as it came: its code, its headers and its text."""
    data = None if body is None else json.dumps(body).encode()
    sent = {} if body is None else {"content-type": "application/json"}
    request = Request(url, data, {**sent, **headers}, method=method)
    try:
        with urlopen(request, timeout=SECONDS) as response:
            return f"{response.status}\n{response.headers}\n{response.read().decode()}"
    except HTTPError as error:
        with error:
            return f"{error.code}\n{error.headers}\n{error.read().decode()}"


def documents(
    url: str, headers: Mapping[str, str], values: Mapping[str, Sequence[str]]
) -> dict[str, str]:
    """The answer of every GET but the streams, by the description; `values` are those of names."""
    description = answer_of(f"{url}/api/openapi.json", headers)
    paths = json.loads(description.split("\n\n", 1)[1])["paths"]
    found = {"openapi": description}
    for path, calls in paths.items():
        if "get" not in calls or path in (STREAM, LIVE):
            continue
        names = [name for name in values if "{" + name + "}" in path]
        for chosen in product(*(values[name] for name in names)):
            filled = path
            for name, value in zip(names, chosen, strict=True):
                filled = filled.replace("{" + name + "}", value)
            assert "{" not in filled, f"nothing is known of a name in {path}"
            found[filled] = answer_of(url + filled, headers)
    return found


def pages(url: str) -> dict[str, str]:
    """Every file of the dashboard."""
    files = [path.relative_to(PAGES) for path in PAGES.rglob("*") if path.is_file()]
    return {f"/ui/{file}": answer_of(f"{url}/ui/{file}", {}) for file in files}


def stream(url: str, headers: Mapping[str, str], last: int) -> str:
    """The events of this run as they are streamed, up to one of this number."""
    return _streamed(url + STREAM, {**headers, "last-event-id": "0"}, f"id: {last}\n")


def live(url: str, headers: Mapping[str, str]) -> str:
    """One moment of the live figures, as they are streamed."""
    return _streamed(url + LIVE, headers, "data: ")


def _streamed(url: str, headers: Mapping[str, str], last: str) -> str:
    """What is streamed, up to the message that has `last`."""
    text = ""
    with urlopen(Request(url, headers=dict(headers)), timeout=SECONDS) as response:
        while last not in text or not text.endswith("\n\n"):
            line = response.readline().decode()
            assert line, text
            text += line
    return text


def spark_pages(url: str) -> dict[str, str]:
    """What Spark's own UI shows of a session, its plans and its settings."""
    found = {f"spark {page}": answer_of(f"{url}/{page}/", {}) for page in SPARK_PAGES}
    listed = answer_of(f"{url}/api/v1/applications", {})
    (application,) = json.loads(listed.split("\n\n", 1)[1])
    for document in SPARK_DOCUMENTS:
        path = f"/api/v1/applications/{application['id']}/{document}"
        found[f"spark {document}"] = answer_of(url + path, {})
    plans = json.loads(found[f"spark {SPARK_DOCUMENTS[-1]}"].split("\n\n", 1)[1])
    for plan in plans:
        name = f"SQL/execution/?id={plan['id']}"
        found[f"spark {name}"] = answer_of(f"{url}/{name}", {})
    return found


def tables(state: Path) -> dict[str, str]:
    """Every file below `checkpoint.path`: the rows of Parquet files, all others as they are.

    Of files that a table no longer has as well.
    """
    return {str(path.relative_to(state)): _text(path) for path in _files(state)}


def _files(state: Path) -> Iterator[Path]:
    return (path for path in state.rglob("*") if path.is_file())


def _text(path: Path) -> str:
    if path.suffix == ".parquet":
        return json.dumps(pq.read_table(path).to_pylist(), default=str)
    return path.read_text("utf-8", errors="replace")
