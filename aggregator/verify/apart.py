"""An audit beside a running instance, in a process of its own: it takes nothing from the stream.

Run as a module it is that process: what to compare comes on stdin, what it tells goes to stdout, a
JSON value a line. It ends when whoever started it does.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pydantic import Field

from aggregator.config.mask import mask_text
from aggregator.config.schema import Config
from aggregator.documents.document import Document
from aggregator.errors import AggregatorError, RefusedError
from aggregator.verify.core import Scope

NICENESS = 10
"""The stream goes first."""
STOP_SECONDS = 20.0


class AuditRun(Document):
    """The audit that runs, or the last one that ran; `error` says why it has told nothing."""

    running: bool = False
    started_at: datetime | None = None
    ended_at: datetime | None = None
    progress: str = ""
    audit: str | None = Field(default=None, description="its name in the table of audits")
    exit_code: int | None = None
    error: str = ""


class AuditRunner:
    """Runs at most one audit at a time. Used by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest = AuditRun()
        self._child: subprocess.Popen[bytes] | None = None
        self._closed = False

    @property
    def latest(self) -> AuditRun:
        """How it stands."""
        return self._latest

    def start(self, config: Config, scope: Scope) -> AuditRun:
        """Begin an audit; it is recorded with the others. RefusedError while one runs."""
        with self._lock:
            if self._closed:
                raise RefusedError(["the instance is stopping"])
            if self._latest.running:
                raise RefusedError(["an audit is running already: wait for its end"])
            command = [sys.executable, "-m", "aggregator.verify.apart"]
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            self._latest = AuditRun(running=True, started_at=datetime.now(UTC))
            child = self._child
        threading.Thread(
            target=self._follow, args=(child, config, scope), name="audit", daemon=True
        ).start()
        return self._latest

    def close(self) -> None:
        """End the audit that runs, and begin none from now on."""
        with self._lock:
            self._closed = True
            child = self._child
        if child is None or child.poll() is not None:
            return
        if child.stdin is not None:
            child.stdin.close()
        try:
            child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _follow(self, child: subprocess.Popen[bytes], config: Config, scope: Scope) -> None:
        told: dict[str, Any] = {}
        try:
            assert child.stdin is not None and child.stdout is not None
            # Through a pipe between two processes of ours: secrets stand on no command line.
            pickle.dump((config, scope), child.stdin)
            child.stdin.flush()
            for line in child.stdout:
                told = json.loads(line)
                if "progress" in told:
                    words = mask_text(told["progress"], config)
                    self._latest = self._latest.model_copy(update={"progress": words})
        except (OSError, ValueError) as error:
            told = {"error": str(error)}
        code = child.wait()
        if "audit" not in told and "error" not in told:
            told = {"error": f"it ended with {code}, and told nothing; see `aggregator verify`"}
        ended = {
            "running": False,
            "ended_at": datetime.now(UTC),
            "audit": told.get("audit"),
            "exit_code": told.get("exit_code"),
            "error": mask_text(told.get("error", ""), config),
        }
        self._latest = self._latest.model_copy(update=ended)


def main() -> None:
    """Compare what stdin says, record it, and tell."""
    from aggregator.verify.record import record
    from aggregator.verify.run import VerifyRequest, verify

    os.nice(NICENESS)
    config, scope = pickle.load(sys.stdin.buffer)
    tell = _teller()
    stop = threading.Event()

    def watch() -> None:
        # Nothing more is ever written: what comes is the end of whoever started this.
        sys.stdin.buffer.read()
        stop.set()

    threading.Thread(target=watch, daemon=True).start()
    try:
        report = verify(
            config,
            VerifyRequest(scope),
            stop=stop,
            progress=lambda line: tell({"progress": line}),
        )
        record(config, report)
    except AggregatorError as error:
        tell({"error": str(error)})
        sys.exit(error.exit_code)
    tell({"audit": report.audit, "exit_code": report.exit_code})


def _teller() -> Callable[[dict[str, Any]], None]:
    """What writes to the stdout of now; nothing else, such as Java, does from here on."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(what: dict[str, Any]) -> None:
        print(json.dumps(what), file=out, flush=True)

    return tell


if __name__ == "__main__":
    main()
