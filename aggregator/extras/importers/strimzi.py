"""Strimzi's resources as the connectors and workers that its operator makes of them. Pure.

`KafkaMirrorMaker2` of all its API versions, and `KafkaConnector` with the `KafkaConnect` that it
names. Secrets are references to Kubernetes there, so they become variables here.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from aggregator.extras.importers.configs import Posted, SettingPlace, Settings
from aggregator.features.connectors import config_keys as words
from aggregator.features.connectors.mirror_maker_source import ADDRESS, Version, version_of
from aggregator.model.errors import ConfigError, Problem

GROUP = "kafka.strimzi.io/"
KINDS = ("KafkaMirrorMaker2", "KafkaConnector", "KafkaConnect")
OFFSETS = {
    "KafkaMirrorMaker2": "mirrormaker2-cluster-offsets",
    "KafkaConnect": "connect-cluster-offsets",
}
"""The topic of offsets of a worker that names none."""
MODULES = {
    "plain": ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
    "scram-sha-512": ("SCRAM-SHA-512", "org.apache.kafka.common.security.scram.ScramLoginModule"),
    "scram-sha-256": ("SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"),
}
PATTERNS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.blacklist",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.blacklist",
}


@dataclass(frozen=True, slots=True)
class ResourceSettings(Settings):
    """The settings of a resource, each with where in it it was found."""

    places: Mapping[str, str] = field(default_factory=dict)

    def where(self, key: str) -> SettingPlace:
        """Where a key of it was found: a field of the resource, or a secret."""
        return SettingPlace(self.file, self.places.get(key, key))


def is_resource(text: str) -> bool:
    """Whether a text is of Strimzi's resources."""
    return GROUP in text and "kind" in text


def resources(file: str, text: str) -> list[Posted]:
    """The connectors that the resources in a text define. ConfigError when it has none."""
    documents = [it for it in _documents(file, text) if str(it.get("apiVersion")).startswith(GROUP)]
    workers = {
        _name(it): _worker(file, it, _of(it, "spec"))
        for it in documents
        if it.get("kind") == "KafkaConnect"
    }
    found = [
        resource
        for it in documents
        for resource in (
            _of_mirror_maker(file, it)
            if it.get("kind") == "KafkaMirrorMaker2"
            else _of_connector(file, it, workers)
            if it.get("kind") == "KafkaConnector"
            else ()
        )
    ]
    if not found:
        kinds = ", ".join(sorted({str(it.get("kind")) for it in documents}) or ["none"])
        reason = f"has no KafkaMirrorMaker2 and no KafkaConnector; its resources: {kinds}"
        raise ConfigError([Problem("", reason, "name the file that has one")], file)
    return found


def _documents(file: str, text: str) -> Iterator[Mapping[str, Any]]:
    try:
        read = [json.loads(text)] if text.lstrip()[:1] == "{" else list(yaml.safe_load_all(text))
    except (ValueError, yaml.YAMLError) as error:
        raise ConfigError([Problem("", f"cannot be read: {error}")], file) from error
    for item in read:
        if isinstance(item, dict):
            # What kubectl gives of several is a list.
            items = item["items"] if isinstance(item.get("items"), list) else [item]
            yield from (it for it in items if isinstance(it, dict))


def _of(item: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = item.get(key)
    return found if isinstance(found, dict) else {}


def _name(resource: Mapping[str, Any]) -> str:
    return str(_of(resource, "metadata").get("name") or "strimzi")


def _of_mirror_maker(file: str, resource: Mapping[str, Any]) -> Iterator[Posted]:
    spec = _of(resource, "spec")
    version = _version(spec)
    named = [it for it in spec.get("clusters") or [] if isinstance(it, dict)]
    clusters = {str(it.get("alias")): it for it in named}
    for number, mirror in enumerate(spec.get("mirrors") or []):
        source, target = _ends(spec, clusters, mirror)
        worker = _worker(file, resource, {**spec, **target})
        for key, kind in (
            ("sourceConnector", "MirrorSourceConnector"),
            ("checkpointConnector", "MirrorCheckpointConnector"),
            ("heartbeatConnector", "MirrorHeartbeatConnector"),
        ):
            connector = mirror.get(key)
            if not isinstance(connector, dict):
                continue
            made = _Made(file, f"{_name(resource)}: spec.mirrors[{number}].{key}")
            made.add("connector.class", f"{words.MIRROR_CLASS.rpartition('.')[0]}.{kind}", "class")
            made.take_cluster("target.cluster.", target)
            made.take_cluster("source.cluster.", source)
            made.take_config("", _of(connector, "config"))
            for word, name in PATTERNS.items():
                if mirror.get(word) is not None:
                    made.add(name, mirror[word], word)
            made.take_tasks(connector)
            name = f"{source.get('alias')}->{target.get('alias')}.{kind}"
            yield Posted(name, made.settings, worker, version, _doubt(connector))


def _ends(
    spec: Mapping[str, Any],
    clusters: Mapping[str, Mapping[str, Any]],
    mirror: Mapping[str, Any],
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Source and target of a mirror: named among the clusters, or in their place since v1."""
    nothing: Mapping[str, Any] = {}
    source = clusters.get(str(mirror.get("sourceCluster")), nothing) or _of(mirror, "source")
    target = clusters.get(str(mirror.get("targetCluster")), nothing) or _of(spec, "target")
    return source, target


def _of_connector(
    file: str, resource: Mapping[str, Any], workers: Mapping[str, Settings]
) -> Iterator[Posted]:
    spec = _of(resource, "spec")
    cluster = _of(_of(resource, "metadata"), "labels").get("strimzi.io/cluster", "")
    made = _Made(file, f"{_name(resource)}: spec")
    made.add("connector.class", spec.get("class", ""), "class")
    made.take_config("", _of(spec, "config"))
    made.take_tasks(spec)
    yield Posted(_name(resource), made.settings, workers.get(cluster), None, _doubt(spec))


def _worker(file: str, resource: Mapping[str, Any], spec: Mapping[str, Any]) -> Settings:
    """The worker of a resource, which writes all records with the login of its cluster."""
    made = _Made(file, f"{_name(resource)}: spec")
    made.take_cluster("producer.", spec)
    made.settings_by_name.pop("producer.alias", None)
    made.add(ADDRESS, spec.get("bootstrapServers", ""), "bootstrapServers")
    made.take_config("", _of(spec, "config"))
    for name in [it for it in made.settings_by_name if it.startswith("producer.")]:
        if name.removeprefix("producer.") in _of(spec, "config"):
            del made.settings_by_name[name]
    made.take_config("", _of(spec, "config"))
    topic = spec.get("offsetStorageTopic") or made.settings_by_name.get("offset.storage.topic")
    default = OFFSETS.get(str(resource.get("kind")), "")
    made.add("offset.storage.topic", topic or default, "offsetStorageTopic")
    group = spec.get("groupId") or made.settings_by_name.get("group.id") or _name(resource)
    made.add("group.id", group, "groupId")
    return made.settings


class _Made:
    """Settings under construction, each with where in the resource it was found."""

    def __init__(self, file: str, at: str) -> None:
        self._file, self._at = file, at
        self.settings_by_name: dict[str, str] = {}
        self._places: dict[str, str] = {}

    @property
    def settings(self) -> Settings:
        """What was found."""
        return ResourceSettings(self._file, self.settings_by_name, self._places)

    def add(self, name: str, value: Any, place: str) -> None:
        """Add a setting, with the place below the resource that it is from."""
        text = str(value).lower() if isinstance(value, bool) else str(value)
        self.settings_by_name[name] = text
        self._places[name] = place if place.startswith("secret ") else f"{self._at}.{place}"

    def take_config(self, prefix: str, config: Mapping[str, Any]) -> None:
        """Add the settings below `config`."""
        for name, value in config.items():
            if value is not None:
                self.add(f"{prefix}{name}", value, f"config.{name}")

    def take_tasks(self, spec: Mapping[str, Any]) -> None:
        """Add the number of tasks."""
        if spec.get("tasksMax") is not None:
            self.add("tasks.max", spec["tasksMax"], "tasksMax")

    def take_cluster(self, prefix: str, cluster: Mapping[str, Any]) -> None:
        """Add address, TLS and login of a cluster, as the operator makes settings of them."""
        alias = str(cluster.get("alias", ""))
        at = f"clusters[{alias}]"
        self.add(f"{prefix}alias", alias, at)
        self.add(
            f"{prefix}{ADDRESS}", cluster.get("bootstrapServers", ""), f"{at}.bootstrapServers"
        )
        tls = cluster.get("tls")
        login = _of(cluster, "authentication")
        is_login = self._take_login(prefix, login, at)
        if isinstance(tls, dict) and (trusted := tls.get("trustedCertificates")):
            self._take_trusted(prefix, trusted)
        protocol = f"SASL_{'SSL' if isinstance(tls, dict) else 'PLAINTEXT'}"
        protocol = protocol if is_login else protocol.removeprefix("SASL_")
        self.add(f"{prefix}security.protocol", protocol, f"{at}.tls")
        if prefix != "producer.":
            self.take_config(prefix, _of(cluster, "config"))

    def _take_trusted(self, prefix: str, trusted: Sequence[Any]) -> None:
        named = [it for it in trusted if isinstance(it, dict)]
        secrets = ", ".join(
            f"{it.get('secretName')}/{it.get('certificate') or it.get('pattern')}" for it in named
        )
        name = f"{prefix}ssl.truststore.certificates"
        self.add(name, "${strimzisecrets:trusted:certificates}", f"secret {secrets}")
        self.add(f"{prefix}ssl.truststore.type", "PEM", "tls")

    def _take_login(self, prefix: str, login: Mapping[str, Any], at: str) -> bool:
        """Add a login; returns whether it is one of SASL."""
        kind = str(login.get("type", ""))
        if kind == "tls":
            pair = _of(login, "certificateAndKey")
            secret = str(pair.get("secretName"))
            certificate, key = str(pair.get("certificate")), str(pair.get("key"))
            self._add_secret(f"{prefix}ssl.keystore.certificate.chain", secret, certificate)
            self._add_secret(f"{prefix}ssl.keystore.key", secret, key)
            self.add(f"{prefix}ssl.keystore.type", "PEM", f"{at}.authentication")
            return False
        if kind in MODULES:
            mechanism, module = MODULES[kind]
            password = _of(login, "passwordSecret")
            name, key = str(password.get("secretName")), str(password.get("password"))
            self.add(f"{prefix}sasl.mechanism", mechanism, f"{at}.authentication")
            line = (
                f'{module} required username="{login.get("username")}" '
                f'password="${{strimzisecrets:{name}:{key}}}";'
            )
            self.add(f"{prefix}sasl.jaas.config", line, f"secret {name}, key {key}")
            return True
        if kind == "oauth":
            self._take_oauth(prefix, login, at)
            return True
        for name, value in _of(login, "config").items():
            self.add(f"{prefix}{name}", value, f"{at}.authentication.config.{name}")
        return bool(login.get("sasl"))

    def _take_oauth(self, prefix: str, login: Mapping[str, Any], at: str) -> None:
        secret = _of(login, "clientSecret")
        name, key = str(secret.get("secretName")), str(secret.get("key"))
        options = {
            "clientId": login.get("clientId"),
            "clientSecret": f"${{strimzisecrets:{name}:{key}}}",
            "scope": login.get("scope"),
        }
        said = " ".join(f'{it}="{value}"' for it, value in options.items() if value)
        module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
        place = f"secret {name}, key {key}"
        self.add(f"{prefix}sasl.mechanism", "OAUTHBEARER", f"{at}.authentication")
        self.add(f"{prefix}sasl.jaas.config", f"{module} required {said};", place)
        url = login.get("tokenEndpointUri", "")
        self.add(f"{prefix}sasl.oauthbearer.token.endpoint.url", url, f"{at}.authentication")

    def _add_secret(self, name: str, secret: str, key: str) -> None:
        self.add(name, f"${{strimzisecrets:{secret}:{key}}}", f"secret {secret}, key {key}")


def _version(spec: Mapping[str, Any]) -> Version | None:
    try:
        return version_of(str(spec.get("version", "")))
    except ValueError:
        return None


def _doubt(connector: Mapping[str, Any]) -> str:
    state = "paused" if connector.get("pause") is True else str(connector.get("state") or "running")
    return "" if state == "running" else f"is {state} there, and runs here"
