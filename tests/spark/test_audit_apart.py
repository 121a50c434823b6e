"""An audit in its own process ends with the process that started it, whatever it waits for."""

from __future__ import annotations

import pickle
import socket
import subprocess
import sys
from pathlib import Path

from aggregator.config import load_text
from aggregator.features.verify.audit_scope import Scope
from support.reading import SECONDS, wait_for


def test_an_audit_that_waits_for_a_cluster_ends_with_the_process_that_started_it(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        # Takes connections, and never answers: the audit waits for as long as the config says.
        config = load_text(
            "",
            [
                f"hub.bootstrap_servers=127.0.0.1:{mute.getsockname()[1]}",
                "sources.eu.bootstrap_servers=127.0.0.1:9",
                "sources.eu.topics.include=orders",
                "supervision.connect_timeout=10m",
                f"checkpoint.path={tmp_path / 'state'}",
            ],
        )
        mute.settimeout(SECONDS)
        with subprocess.Popen(
            [sys.executable, "-m", "aggregator.features.verify.audit_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as child:
            try:
                assert child.stdin is not None
                pickle.dump((config, Scope()), child.stdin)
                child.stdin.flush()
                client, _ = mute.accept()
                with client:
                    assert child.poll() is None
                    child.stdin.close()
                    wait_for(lambda: child.poll() is not None, "it has ended", seconds=60)
            finally:
                child.kill()
