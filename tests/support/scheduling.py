"""Which process takes which test file: as few of them as needed start a Java of their own.

A process that tests keeps its Java, and what that has loaded and compiled serves the next session
there. Files of which no test makes a session here, as each starts applications, go first to
one process in three: so that one has no such Java before the end.

Those that wait for brokers leave a part of the cores idle. Where there is one process more than
these need, it takes unit tests alone, behind all others for the cores, and ends when none is left.
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
"""What a file contains whose tests make a session in the test process itself."""
SHARE = 3
"""One process in this many gets no such file, as long as there is other work."""
BESIDE = pytest.StashKey[bool]()
"""Whether the last process is for unit tests alone."""


class ByJava(LoadFileScheduling):  # type: ignore[misc]  # without types
    """As `--dist loadfile`, but for the choice of the next file."""

    def _assign_work_unit(self, node: Any) -> None:
        others = [it for it in self.nodes if not self.is_beside(it)]
        without = node in others and others.index(node) % SHARE == SHARE - 1
        chosen = plan_next(
            self.workqueue,
            without=without and len(others) >= SHARE,
            root=self.config.rootpath,
            unit=self.is_beside(node) if self.config.stash.get(BESIDE, False) else None,
        )
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if self.is_beside(node) and not any(map(is_unit, self.workqueue)):
            # Another one that starts applications would be more than the machine is for.
            if not node.shutting_down:
                node.shutdown()
            return
        super()._reschedule(node)

    def is_beside(self, node: Any) -> bool:
        """Whether a process is the one for unit tests alone."""
        return is_beside(self.config, node)

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


def plan_next(
    waiting: Iterable[str], *, without: bool, root: Path, unit: bool | None = None
) -> str:
    """The file that a process takes next of these, which are waiting in this order.

    The first one with sessions, or `without` them; where there is none, the first one. Unit tests
    have no session: they come as they are, or `unit` says whether before all others or behind them.
    ValueError when none is waiting.
    """
    found = [*waiting]
    if not found:
        raise ValueError("no file is waiting")
    if unit is not None:
        found = [it for it in found if is_unit(it) is unit] or found
    if is_unit(found[0]):
        return found[0]
    return next((it for it in found if is_of_sessions(root / it) is not without), found[0])


def is_unit(file: str) -> bool:
    """Whether it is a file of unit tests."""
    return "/unit/" in file


def is_beside(config: pytest.Config, node: Any) -> bool:
    """Whether a process is the one for unit tests alone: the last one, where there is such a one.

    One that takes the place of a process that has ended has a number of its own.
    """
    if not config.stash.get(BESIDE, False):
        return False
    return bool(node.gateway.id == f"gw{config.option.numprocesses - 1}")


@cache
def is_of_sessions(file: Path) -> bool:
    """Whether tests of a file make a Spark session in their process."""
    return OF_SESSIONS.search(file.read_text("utf-8")) is not None


def scheduler(config: pytest.Config, log: Any) -> ByJava | None:
    """For `--dist loadfile`; others are as they are."""
    return ByJava(config, log) if config.getvalue("dist") == "loadfile" else None
