"""An audit beside a running instance, in a process of its own: it takes nothing from the stream.

Run as a module it is that process, as `aggregator.features.child_process` says.
"""

import subprocess
import threading
from datetime import UTC, datetime
from typing import Any

from pydantic import Field

from aggregator.config.mask import mask_text
from aggregator.config.schema import Config
from aggregator.features.child_process import (
    Child,
    begin,
    enter_child,
    hand_over,
    live,
    messages_of,
)
from aggregator.features.verify.audit_scope import Scope
from aggregator.model.errors import AggregatorError, RefusedError
from aggregator.status.schema import Document

STOP_SECONDS = 2.0
"""Nothing of an audit that is stopped is kept, so there is nothing to wait for."""
LOCAL = "local[*]"


class AuditRun(Document):
    """The audit that runs, or the last one that ran; `error` says why it has no result."""

    running: bool = False
    started_at: datetime | None = None
    ended_at: datetime | None = None
    progress: str = ""
    audit: str | None = Field(default=None, description="its name in the table of audits")
    exit_code: int | None = None
    error: str = ""


class AuditRunner:
    """Runs at most one audit at a time, on this machine. Used by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest = AuditRun()
        self._child: Child | None = None
        self._closed = False

    @property
    def latest(self) -> AuditRun:
        """Its status."""
        return self._latest

    def start(self, config: Config, scope: Scope) -> AuditRun:
        """Begin an audit; it is recorded with the others.

        RefusedError while one runs, and when this instance stops; AggregatorError when no process
        can be started.
        """
        with self._lock:
            if self._closed:
                raise RefusedError(["the instance is stopping"])
            if self._latest.running:
                raise RefusedError(["an audit is running already: wait for its end"])
            try:
                child = self._child = begin("aggregator.features.verify.audit_process")
            except OSError as error:
                raise AggregatorError(f"no process for an audit: {error.strerror}") from error
            begun = self._latest = AuditRun(running=True, started_at=datetime.now(UTC))
        # Never on the executors of the stream.
        spark = config.spark.model_copy(update={"master": LOCAL})
        alone = config.model_copy(update={"spark": spark})
        threading.Thread(
            target=self._follow, args=(child, alone, scope), name="audit", daemon=True
        ).start()
        return begun

    def close(self) -> None:
        """End the audit that runs, and begin none from now on."""
        with self._lock:
            self._closed = True
            child = self._child
        if child is not None and child.poll() is None:
            child.terminate()
            try:
                child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _follow(self, child: Child, config: Config, scope: Scope) -> None:
        result: dict[str, Any] = {}
        try:
            hand_over(child, (config, scope))
            for news in messages_of(child):
                result |= news
                words = mask_text(str(result.get("progress", "")), config)
                self._latest = self._latest.model_copy(update={"progress": words})
        except Exception as error:  # a thread has no caller to raise to: it becomes the answer
            result["error"] = str(error)
            child.kill()
        code = child.wait()
        if not result.get("audit") and not result.get("error"):
            result["error"] = f"it ended with {code}, without a result; try `aggregator verify`"
        ended = {
            "running": False,
            "ended_at": datetime.now(UTC),
            "audit": result.get("audit"),
            "exit_code": result.get("exit_code"),
            "error": mask_text(result.get("error", ""), config),
        }
        self._latest = self._latest.model_copy(update=ended)


def main() -> None:
    """Run the audit given on stdin, record it, and send the result."""
    from aggregator.features.verify.audit import VerifyRequest, verify
    from aggregator.features.verify.audit_table import record

    (config, scope), send, stop = enter_child()

    def work() -> None:
        report = verify(
            config,
            VerifyRequest(scope),
            stop=stop,
            progress=lambda line: send({"progress": line}),
        )
        send({"audit": report.audit, "exit_code": report.exit_code})
        record(config, report)

    live(send, work)


if __name__ == "__main__":
    main()
