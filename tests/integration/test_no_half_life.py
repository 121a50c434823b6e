"""An Error in a thread of Java ends the whole instance with a reason: it is never half alive."""

from __future__ import annotations

from pathlib import Path

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import create_topic, produce
from aggregator.model.errors import EXIT_OTHER
from support.application import application
from support.running import make_config, source

PROMPT_SECONDS = 20.0


def test_an_error_in_the_thread_that_reports_ends_the_instance_with_a_reason(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique)
    produce(source_a.bootstrap_servers, unique, [])
    config = make_config(hub, tmp_path / "state", {"eu": source(source_a, unique)})
    with application(config, tmp_path, failpoint="task-report:3=raise") as running:
        running.until(lambda: "the JVM ends: thread aggregator-reporter" in running.text, "it ends")
        assert running.wait(PROMPT_SECONDS), running.die_with_stacks()
        assert running.exit_code == EXIT_OTHER, running.text
        assert "error: Java has ended, exit code 70: one of its threads died" in running.text
        assert running.wait_gone(), running.members()
