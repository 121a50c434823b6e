"""Real schema registries for tests, several at once, whose settings can be looked at."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from aggregator.extras.embedded.registry import (
    JAVA,
    EmbeddedRegistry,
    ask_registry,
    framed_avro,
    unpack_registry,
)
from support.java_options import QUICK_START

__all__ = ["ApicurioRegistry", "asked", "framed_avro", "schema_registries"]

asked = ask_registry


class ApicurioRegistry(EmbeddedRegistry):
    """A running one whose settings can be looked at."""

    def level(self, subject: str, new: str | None = None) -> str:
        """The compatibility setting of a subject, after setting it to `new`."""
        path = f"/config/{quote(subject, safe='')}"
        body = None if new is None else {"compatibility": new}
        answer = asked(self.url, "GET" if new is None else "PUT", path, body)
        return str(answer.get("compatibilityLevel") or answer["compatibility"])


@contextmanager
def schema_registries(folder: Path, count: int = 1) -> Iterator[list[ApicurioRegistry]]:
    """`count` of them, each with nothing in it, started at once and gone with the block."""
    app = folder / "app"
    runner = unpack_registry(app)
    found: list[ApicurioRegistry] = []
    try:
        for _ in range(count):
            found.append(ApicurioRegistry(runner, folder, (*JAVA, *QUICK_START.split())))
        for registry in found:
            registry.wait_ready()
        yield found
    finally:
        for registry in found:
            registry.process.kill()
        shutil.rmtree(app)
