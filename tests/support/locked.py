"""A cluster that wants a login, and what becomes of it when the password is another one."""

from __future__ import annotations

from aggregator.embedded.cluster import EmbeddedCluster

USER, PASSWORD = "copier", "s3cret-of-ours"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CLIENT = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{LOGIN} username="{USER}" password="{PASSWORD}";',
}
"""For `kafka` of a source: logs in with the first password."""


def change_password(cluster: EmbeddedCluster, before: str, after: str) -> None:
    """Start the broker anew with another password for the user."""
    (broker,) = cluster.brokers
    properties = broker.home / "server.properties"
    text = properties.read_text()
    assert f'user_{USER}="{before}"' in text
    broker.kill()
    properties.write_text(text.replace(f'user_{USER}="{before}"', f'user_{USER}="{after}"'))
    broker.start()
