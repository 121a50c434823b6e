"""One broker with a listener for each way to log in, and the settings of a client for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import admin
from support.broker_classes import broker_options
from support.certificates import KEY_PASSWORD, STORE_PASSWORD, Authority, Issued
from support.tokens import TokenServer, token_server

SECONDS = 60
REAUTHENTICATE_MS = "2000"
"""How often a connection must show its login again, so that an old password ends it."""
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
SECRET = "cl1ent-of-ours"
SUPER_USERS = ("copier", "CN=copier", "tokens")


class Right(NamedTuple):
    """An operation on a topic, a group, or the cluster (BROKER)."""

    kind: str
    name: str
    operation: str

    def binding(self, user: str) -> AclBinding:
        return AclBinding(
            ResourceType[self.kind],
            self.name,
            ResourcePatternType.LITERAL,
            f"User:{user}",
            "*",
            AclOperation[self.operation],
            AclPermissionType.ALLOW,
        )


def source_rights(topic: str, group: str = "") -> list[Right]:
    """The least that reading a topic needs."""
    topics = [Right("TOPIC", topic, it) for it in ("READ", "DESCRIBE_CONFIGS")]
    return [*topics, Right("GROUP", group, "READ")] if group else topics


def hub_rights(topic: str) -> list[Right]:
    """The least that a hub topic needs, with `sync_configs` and `grow`."""
    # Anyone who may alter configs may describe them.
    operations = ("READ", "WRITE", "ALTER_CONFIGS", "ALTER")
    topics = [Right("TOPIC", topic, it) for it in operations]
    return [*topics, Right("BROKER", "kafka-cluster", "CREATE")]


class Secured:
    """The cluster, its CA and its token server."""

    def __init__(self, cluster: EmbeddedCluster, ca: Authority, tokens: TokenServer) -> None:
        self.cluster, self.ca, self.tokens = cluster, ca, tokens
        self.copier = ca.issue("copier")
        self.pkcs12 = self.copier.pkcs12()
        # Each is a Java of its own.
        with ThreadPoolExecutor() as pool:
            makers = (self.copier.jks, ca.trust_jks, ca.trust_pkcs12)
            made = [pool.submit(make) for make in makers]
        self.jks, self.trust_jks, self.trust_pkcs12 = (it.result() for it in made)

    @property
    def trust(self) -> dict[str, str]:
        """Trust in the CA, by PEM."""
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca.root)}

    def modes(self) -> dict[str, tuple[str, dict[str, str]]]:
        """Every way to log in: alias -> listener, and settings in the words of Java."""
        return {
            "plain": ("PLAIN", self.plain("copier", SECRET)),
            "scram256": ("SCRAM", self.scram("copier", SECRET, "SCRAM-SHA-256")),
            "scram512": ("SCRAM", self.scram("copier", SECRET)),
            "tokens": ("TOKENS", self.oauth("tokens", SECRET)),
            "pem": ("MUTUAL", {**self.trust, **self.pem(self.copier)}),
            "pemtext": ("MUTUAL", {**self.trust, **self.pem_text(self.copier)}),
            "pkcs12": ("MUTUAL", self.with_stores("pkcs12")),
            "jks": ("MUTUAL", self.with_stores("jks")),
        }

    def plain(self, user: str, password: str) -> dict[str, str]:
        login = f'{PLAIN} username="{user}" password="{password}";'
        return {**self.trust, **sasl("SASL_SSL", "PLAIN", login)}

    def scram(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        login = f'{SCRAM} username="{user}" password="{password}";'
        return {**self.trust, **sasl("SASL_SSL", mechanism, login)}

    def oauth(self, client: str, secret: str) -> dict[str, str]:
        login = f'{OAUTH} clientId="{client}" clientSecret="{secret}" scope="kafka";'
        url = {"sasl.oauthbearer.token.endpoint.url": self.tokens.token_url}
        return {**url, **sasl("SASL_PLAINTEXT", "OAUTHBEARER", login)}

    def pem(self, issued: Issued) -> dict[str, str]:
        own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(issued.pem)}
        return {"security.protocol": "SSL", **own}

    def pem_text(self, issued: Issued) -> dict[str, str]:
        chain = {"ssl.keystore.certificate.chain": issued.chain.read_text()}
        key = {"ssl.keystore.key": issued.key.read_text()}
        return {"security.protocol": "SSL", "ssl.keystore.type": "PEM", **chain, **key}

    def with_stores(self, kind: str) -> dict[str, str]:
        """Key and trust in Java's own stores, the key of JKS with a password of its own."""
        jks = kind == "jks"
        return {
            "security.protocol": "SSL",
            "ssl.keystore.type": kind.upper(),
            "ssl.keystore.location": str(self.jks if jks else self.pkcs12),
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.truststore.type": kind.upper(),
            "ssl.truststore.location": str(self.trust_jks if jks else self.trust_pkcs12),
            "ssl.truststore.password": STORE_PASSWORD,
            **({"ssl.key.password": KEY_PASSWORD} if jks else {}),
        }

    def set_password(self, user: str, password: str) -> None:
        """Set the password of a user of SCRAM, for both mechanisms."""
        kafka = admin(self.cluster.admin_servers)
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            how = ScramCredentialInfo(mechanism, 4096)
            wanted: list[UserScramCredentialAlteration] = [
                UserScramCredentialUpsertion(user, how, password.encode())
            ]
            for future in kafka.alter_user_scram_credentials(wanted).values():
                future.result(SECONDS)

    def allow(self, user: str, *rights: Right) -> None:
        """Allow a user these."""
        allow(self.cluster, user, *rights)

    def forbid(self, user: str, right: Right) -> None:
        """Take one of them back."""
        forbid(self.cluster, user, right)


def allow(cluster: EmbeddedCluster, user: str, *rights: Right) -> None:
    """Allow a user these, at a cluster with ACLs."""
    kafka = admin(cluster.admin_servers)
    for future in kafka.create_acls([right.binding(user) for right in rights]).values():
        future.result(SECONDS)


def forbid(cluster: EmbeddedCluster, user: str, right: Right) -> None:
    """Take one of them back."""
    binding = right.binding(user)
    names = ("restype", "name", "resource_pattern_type", "principal", "host", "operation")
    asked = [getattr(binding, name) for name in (*names, "permission_type")]
    kafka = admin(cluster.admin_servers)
    for future in kafka.delete_acls([AclBindingFilter(*asked)]).values():
        assert len(future.result(SECONDS)) == 1


def sasl(protocol: str, mechanism: str, login: str) -> dict[str, str]:
    """The three settings of a login."""
    names = ("security.protocol", "sasl.mechanism", "sasl.jaas.config")
    return dict(zip(names, (protocol, mechanism, login), strict=True))


@contextmanager
def secured(folder: Path) -> Iterator[Secured]:
    """A broker with ACLs and four listeners, for as long as the block runs."""
    ca = Authority(folder / "ca")
    broker = ca.issue("broker", "broker")
    others = {"OLD": ca.issue("old", "broker", expired=True), "NAMELESS": ca.issue("nameless")}
    with token_server(folder, {"tokens": SECRET, "other": SECRET}) as tokens:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens.keys_url}"
        with EmbeddedCluster(
            "secured",
            listeners=listeners(ca, broker, tokens, others),
            acls=True,
            super_users=SUPER_USERS,
            java_options=(*broker_options(), allowed),
        ) as cluster:
            found = Secured(cluster, ca, tokens)
            for user in ("copier", "least"):
                found.set_password(user, SECRET)
            yield found


def listeners(
    ca: Authority, broker: Issued, tokens: TokenServer, others: Mapping[str, Issued]
) -> Mapping[str, Mapping[str, str]]:
    """What a broker needs for each of them; `others` show certificates that are not right."""
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(ca.root)}
    pem = {"ssl.keystore.type": "PEM", **trust}
    tls = {**pem, "ssl.keystore.location": str(broker.pem)}
    return {
        "PLAIN": {
            "security.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            "plain.sasl.jaas.config": f'{PLAIN} user_copier="{SECRET}" user_least="{SECRET}";',
            **tls,
        },
        "SCRAM": {
            "security.protocol": "SASL_SSL",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "scram-sha-256.sasl.jaas.config": f"{SCRAM};",
            "scram-sha-512.sasl.jaas.config": f"{SCRAM};",
            "scram-sha-256.connections.max.reauth.ms": REAUTHENTICATE_MS,
            "scram-sha-512.connections.max.reauth.ms": REAUTHENTICATE_MS,
            **tls,
        },
        "MUTUAL": {"security.protocol": "SSL", "ssl.client.auth": "required", **tls},
        "TOKENS": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "oauthbearer.sasl.jaas.config": f"{OAUTH};",
            "oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
            "sasl.oauthbearer.jwks.endpoint.url": tokens.keys_url,
        },
        **{
            name: {"security.protocol": "SSL", **pem, "ssl.keystore.location": str(issued.pem)}
            for name, issued in others.items()
        },
    }
