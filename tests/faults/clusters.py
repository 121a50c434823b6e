"""The clusters of a world: what each of them is, and what is in front of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from aggregator.extras.embedded.broker_settings import LOOPBACK, Hosts, NodePorts
from aggregator.extras.embedded.cluster import JAVA_OPTIONS, EmbeddedCluster
from faults.soak import AGES_OFTEN
from faults.world import World
from support.broker_classes import broker_options
from support.java_options import TRUSTING
from support.locked import CLIENT, PASSWORD, USER
from support.proxied import PROXIES, ProxiedCluster
from support.proxy import Proxy
from support.secured import OAUTH, SECRET, VALIDATOR, sasl
from support.tokens import TokenServer, token_server

TOKENS, WATCHED = "TOKENS", "WATCHED"
CLIENT_ID = "copier"
TOKEN_SECONDS = 10
"""How long a token is valid: a fault must be long enough to miss one that is not renewed."""
FORGETFUL = {"producer.id.expiration.check.interval.ms": "1000"}
"""Ten minutes otherwise, in which a lost acknowledgement is repeated and known again."""


class ProxiedHub(ProxiedCluster):
    """Its brokers reach each other through proxies, too; anyone who watches reaches them directly.

    The controllers use no proxies: with replication cut, every broker is alive for all others.
    """

    def __init__(self, brokers: int, **options: object) -> None:
        self.inner: list[Proxy] = []
        hosts = Hosts(advertised=PROXIES, inner=PROXIES)
        listeners = {WATCHED: {"security.protocol": "PLAINTEXT"}}
        super().__init__("hub", brokers, hosts=hosts, listeners=listeners, **options)

    @property
    def admin_servers(self) -> str:
        """Where no proxy is between."""
        return self.address_of(WATCHED)

    def _ports(self) -> NodePorts:
        ports = super()._ports()
        self.inner.append(Proxy((PROXIES, ports.internal), (LOOPBACK, ports.internal)))
        return ports


def source_cluster(made: World, alias: str) -> EmbeddedCluster:
    """The cluster of a source, not started."""
    options: Sequence[str] = broker_options()
    version, listeners = "", {}
    if made.settings.older and alias == made.older_alias:
        # The archive of classes is of another version.
        version, options = made.settings.older, (*JAVA_OPTIONS, *TRUSTING.split())
    if made.token_server is not None and alias == made.locked_alias:
        url = made.token_server.keys_url
        options = (*options, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}")
        listeners = {TOKENS: _tokens_listener(made.token_server)}
    return EmbeddedCluster(
        alias,
        folder=made.folder / alias,
        sasl_users=_users(made, alias),
        listeners=listeners,
        java_options=options,
        version=version,
        config=AGES_OFTEN if made.settings.soak else None,
    )


def hub_cluster(made: World) -> EmbeddedCluster:
    """The cluster of the hub, not started."""
    settings = made.settings
    config = {
        "default.replication.factor": str(settings.replication),
        "broker.session.timeout.ms": str(round(settings.session_seconds * 1000)),
        **(AGES_OFTEN if settings.soak else {}),
    }
    folder, options = made.folder / "hub", broker_options()
    if not settings.proxied:
        return EmbeddedCluster(
            "hub", settings.hub_brokers, folder=folder, config=config, java_options=options
        )
    config |= {**FORGETFUL, "replica.lag.time.max.ms": str(round(settings.lag_seconds * 1000))}
    cluster = ProxiedHub(settings.hub_brokers, folder=folder, config=config)
    made.proxies, made.inner_proxies = cluster.proxies, cluster.inner
    return cluster


def login_at(made: World, alias: str) -> tuple[str, dict[str, str]]:
    """Where a source is reached, and the settings of the application's login there."""
    cluster = made.sources[alias]
    if made.token_server is not None and alias == made.locked_alias:
        login = f'{OAUTH} clientId="{CLIENT_ID}" clientSecret="{SECRET}" scope="kafka";'
        url = {"sasl.oauthbearer.token.endpoint.url": made.token_server.token_url}
        client = {**url, **sasl("SASL_PLAINTEXT", "OAUTHBEARER", login)}
        return cluster.address_of(TOKENS), client
    return cluster.bootstrap_servers, dict(CLIENT) if _users(made, alias) else {}


@contextmanager
def tokens_for(made: World) -> Iterator[TokenServer]:
    """A token server whose tokens end soon."""
    made.folder.mkdir(parents=True, exist_ok=True)
    with token_server(made.folder, {CLIENT_ID: SECRET}) as tokens:
        tokens.seconds = TOKEN_SECONDS
        yield tokens


def _tokens_listener(tokens: TokenServer) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "oauthbearer.sasl.jaas.config": f"{OAUTH};",
        "oauthbearer.sasl.server.callback.handler.class": VALIDATOR,
        "sasl.oauthbearer.jwks.endpoint.url": tokens.keys_url,
        # Half a minute longer otherwise. And what is open must show a new one then.
        "sasl.oauthbearer.clock.skew.seconds": "0",
        "oauthbearer.connections.max.reauth.ms": str(TOKEN_SECONDS * 1000),
    }


def _users(made: World, alias: str) -> dict[str, str]:
    """The users that log in at a source with a password; none at an open one."""
    return {USER: PASSWORD} if made.settings.locked and alias == made.locked_alias else {}
