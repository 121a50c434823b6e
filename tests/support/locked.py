"""A cluster that wants a login, and what becomes of it when the password is another one."""

from __future__ import annotations

import os
from pathlib import Path

from aggregator.embedded.cluster import EmbeddedCluster

LOWEST = 19
USER, PASSWORD = "copier", "s3cret-of-ours"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CLIENT = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{LOGIN} username="{USER}" password="{PASSWORD}";',
}
"""For `kafka` of a source: logs in with the first password."""


def change_password(cluster: EmbeddedCluster, before: str, after: str) -> None:
    """Start the broker anew with another password for the user.

    It has the lowest priority then: a cluster's start is not to take the cores from the others.
    """
    (broker,) = cluster.brokers
    properties = broker.home / "server.properties"
    text = properties.read_text()
    assert f'user_{USER}="{before}"' in text
    broker.kill()
    properties.write_text(text.replace(f'user_{USER}="{before}"', f'user_{USER}="{after}"'))
    broker.launch()
    for thread in Path(f"/proc/{broker.pid}/task").iterdir():
        # The threads to come inherit it.
        os.setpriority(os.PRIO_PROCESS, int(thread.name), LOWEST)
    broker.wait_ready()
