"""A cluster that wants a login, and what becomes of it when the password is another one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from aggregator.extras.embedded.cluster import EmbeddedCluster

LOWEST = 19
USER, PASSWORD = "copier", "s3cret-of-ours"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CLIENT = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{LOGIN} username="{USER}" password="{PASSWORD}";',
}
"""For `kafka` of a source: logs in with the first password."""


def change_password(
    cluster: EmbeddedCluster, before: str, after: str, *, quietly: bool = False
) -> None:
    """Restart the broker with another password for the user.

    `quietly`: at the lowest priority, so that its start does not take the cores from the others.
    """
    (broker,) = cluster.brokers
    properties = broker.home / "server.properties"
    text = properties.read_text()
    assert f'user_{USER}="{before}"' in text
    broker.kill()
    properties.write_text(text.replace(f'user_{USER}="{before}"', f'user_{USER}="{after}"'))
    broker.launch()
    if quietly:
        _lower(broker.pid)
    broker.wait_ready()


def _lower(pid: int) -> None:
    """Lower a process: its threads, whose children inherit it, and, where these count, its group.

    A thread may end meanwhile, and a kernel have no groups.
    """
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread.name), LOWEST)
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(LOWEST), "utf-8")
