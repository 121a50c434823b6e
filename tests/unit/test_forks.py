"""What tests share holds what it says: forks are as processes, and nothing outlives who asked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from aggregator import __version__
from aggregator.model.errors import ClusterError
from support import shared
from support.application import KILLED
from support.forked import ForkedProcess
from support.processes import is_there
from support.reading import wait_for

TESTS = Path(__file__).parents[1]
ASKER = """
import sys, time
from pathlib import Path
from support.forked import ForkedProcess
print(ForkedProcess(["config", "-c", sys.argv[1]], Path(sys.argv[2]), {}).pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def endless(tmp_path: Path) -> str:
    """A config that no one ever writes, so anyone who reads it waits."""
    os.mkfifo(tmp_path / "aggregator.yaml")
    return str(tmp_path / "aggregator.yaml")


@pytest.mark.slow
def test_a_fork_has_its_output_its_environment_and_its_exit_code(
    tmp_path: Path, endless: str
) -> None:
    log = tmp_path / "log"
    said = ForkedProcess(["--version"], log, {})
    assert said.wait(60) and said.exit_code == 0
    assert log.read_text() == f"{__version__}\n"
    apart, rest = tmp_path / "out", tmp_path / "rest"
    said = ForkedProcess(["--version"], rest, out=apart)
    assert said.wait(60) and said.exit_code == 0
    assert (apart.read_text(), rest.read_text()) == (f"{__version__}\n", "")
    missing = {"AGGREGATOR_CONFIG": str(tmp_path / "elsewhere.yaml")}
    refused = ForkedProcess(["config"], tmp_path / "no", missing)
    assert refused.wait(60) and refused.exit_code == 2
    assert "elsewhere.yaml" in (tmp_path / "no").read_text()
    killed = ForkedProcess(["config", "-c", endless], log, {})
    assert killed.alive and not killed.wait(0)
    assert os.getsid(killed.pid) == killed.pid
    killed.kill()
    assert (killed.exit_code, is_there(killed.pid)) == (KILLED, False)


@pytest.mark.slow
def test_no_fork_outlives_who_asked_for_it(tmp_path: Path, endless: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ASKER, endless, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=TESTS,
    ) as asker:
        assert asker.stdout is not None
        try:
            pid = int(asker.stdout.readline())
            assert is_there(pid)
        finally:
            asker.kill()
    wait_for(lambda: not is_there(pid), "the fork is gone")


def test_clusters_that_do_not_start_are_reported_to_who_wants_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*, lasting: bool) -> NoReturn:
        assert lasting
        raise ClusterError("no port is free")

    monkeypatch.setattr(shared, "started", refused)
    owner = shared.Owner()
    with pytest.raises(AssertionError, match="no port is free"):
        shared.joined(owner.folder)
    owner.end()
    assert not owner.folder.exists()
