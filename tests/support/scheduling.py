"""Which process takes which test file: as few of them as needed start a Java of their own.

A process that tests keeps its Java, and what that has loaded and compiled serves the next session
there. Files of which no test makes a session here, as each starts applications, go first to
one process in three: so that one has no such Java before the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

OF_SESSIONS = re.compile(
    r"\b(run_in_background|catch_up|running_session|build_session)\(|\bspark: SparkSession\b"
)
"""What stands in a file whose tests make a session in the process that tests."""
SHARE = 3
"""One process of so many has none, as far as there is other work."""


class ByJava(LoadFileScheduling):  # type: ignore[misc]  # without types
    """As `--dist loadfile`, but for the choice of the next file."""

    def _assign_work_unit(self, node: Any) -> None:
        without = self.numnodes >= SHARE and self.nodes.index(node) % SHARE == SHARE - 1
        chosen = plan_next(self.workqueue, without=without, root=self.config.rootpath)
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: Any) -> str | None:
        """A process is gone: its other tests run elsewhere, but not the one that cost it.

        Returns that one. xdist runs it again, where it hangs again, until no process is left.
        """
        files = self.assigned_work[node]
        left = ((file, test) for file, tests in files.items() for test in tests if not tests[test])
        file, fatal = next(left, (None, None))
        if file is not None:
            files[file][fatal] = True
            if all(files[file].values()):
                del files[file]
        super().remove_node(node)
        return fatal


def plan_next(waiting: Iterable[str], *, without: bool, root: Path) -> str:
    """The file that a process takes next of these, which are waiting in this order.

    The first one with sessions, or `without` them; where there is none, the first one. Unit tests
    come as they are: they have no session. ValueError when none is waiting.
    """
    found = [*waiting]
    if not found:
        raise ValueError("no file is waiting")
    if "/unit/" in found[0]:
        return found[0]
    return next((it for it in found if is_of_sessions(root / it) is not without), found[0])


@cache
def is_of_sessions(file: Path) -> bool:
    """Whether tests of a file make a Spark session in their process."""
    return OF_SESSIONS.search(file.read_text("utf-8")) is not None


def scheduler(config: pytest.Config, log: Any) -> ByJava | None:
    """For `--dist loadfile`; others are as they are."""
    return ByJava(config, log) if config.getvalue("dist") == "loadfile" else None
