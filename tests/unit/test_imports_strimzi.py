"""Strimzi's resources become a config that loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.extras.importers.import_request import ImportRequest, finished
from aggregator.extras.importers.import_yaml import Finished, Secrets
from aggregator.model.errors import ConfigError

MIRROR_MAKER = """
# what people write
apiVersion: v1
kind: Namespace
---
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: my-mirror}
spec:
  version: 3.8.0
  replicas: 1
  connectCluster: hub
  clusters:
    - alias: eu
      bootstrapServers: eu-kafka-bootstrap:9093
      tls:
        trustedCertificates: [{secretName: eu-ca, certificate: ca.crt}]
      authentication:
        type: scram-sha-512
        username: me
        passwordSecret: {secretName: eu-user, password: pw}
    - alias: hub
      bootstrapServers: hub-kafka-bootstrap:9092
      config:
        config.storage.replication.factor: -1
        producer.linger.ms: 20
  mirrors:
    - sourceCluster: eu
      targetCluster: hub
      topicsPattern: "orders|pay.*"
      topicsExcludePattern: "pay.old"
      groupsPattern: "app.*"
      sourceConnector:
        tasksMax: 7
        config:
          replication.factor: -1
          sync.topic.acls.enabled: "false"
          replication.policy.class: org.apache.kafka.connect.mirror.IdentityReplicationPolicy
      checkpointConnector:
        config: {sync.group.offsets.enabled: true}
      heartbeatConnector: {}
"""
CONNECTOR = """
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaConnect
metadata: {name: my-connect}
spec:
  bootstrapServers: hub:9092
  tls: {}
  config: {group.id: my-group, offset.storage.topic: my-offsets}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaConnector
metadata: {name: from-eu, labels: {strimzi.io/cluster: my-connect}}
spec:
  class: org.apache.kafka.connect.mirror.MirrorSourceConnector
  tasksMax: 2
  state: paused
  config:
    source.cluster.alias: eu
    source.cluster.bootstrap.servers: eu:9092
    topics: orders
"""


def of(folder: Path, text: str, name: str = "x.yaml", **options: Any) -> list[Finished]:
    (folder / name).write_text(text, "utf-8")
    return list(finished(ImportRequest(files=[folder / name], **options), Secrets.ENV))


def loaded(found: Finished) -> Config:
    return load_text(found.text, env={it.name: "word" for it in found.secrets})


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_a_mirror_maker_2_of_strimzi_is_a_config(tmp_path: Path, form: str) -> None:
    text = MIRROR_MAKER
    if form == "json":
        items = list(yaml.safe_load_all(MIRROR_MAKER))
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    (found,) = of(tmp_path, text)
    config = loaded(found)
    assert (config.name, config.hub.bootstrap_servers) == ("hub", "hub-kafka-bootstrap:9092")
    assert config.hub.producer == {"linger.ms": "20"}
    source = config.sources["eu"]
    assert source.bootstrap_servers == "eu-kafka-bootstrap:9093"
    assert source.kafka["security.protocol"] == "SASL_SSL"
    assert source.kafka["sasl.mechanism"] == "SCRAM-SHA-512"
    assert source.kafka["sasl.jaas.config"].endswith('username="me" password="word";')
    assert source.kafka["ssl.truststore.certificates"] == "word"
    assert (source.tasks, source.groups.sync) == (7, ["app.*"])
    assert {it.name: str(it.where.key) for it in found.secrets} == {
        "EU_SASL_JAAS_PASSWORD": "secret eu-user, key pw",
        "EU_SSL_TRUSTSTORE_CERTIFICATES": "secret eu-ca/ca.crt",
    }
    assert any(it.reason.startswith("see heartbeats, which") for it in found.notes)
    # The version is known, so nothing is left to decide.
    assert not [it for it in found.notes if it.decide]
    (stored,) = found.stored
    assert (stored.topic, stored.connector, stored.cluster) == (
        "mirrormaker2-cluster-offsets",
        "eu->hub.MirrorSourceConnector",
        "eu",
    )


def test_the_form_of_its_first_version_is_read_as_well(tmp_path: Path) -> None:
    resource = list(yaml.safe_load_all(MIRROR_MAKER))[1]
    spec = resource["spec"]
    eu, hub = spec.pop("clusters")
    spec["target"] = {**hub, "groupId": "mine", "offsetStorageTopic": "my-offsets"}
    (mirror,) = spec["mirrors"]
    mirror["source"] = eu
    del mirror["sourceCluster"], mirror["targetCluster"], spec["connectCluster"]
    resource["apiVersion"] = "kafka.strimzi.io/v1"
    (found,) = of(tmp_path, yaml.safe_dump(resource))
    assert list(loaded(found).sources) == ["eu"]
    assert loaded(found).hub.bootstrap_servers == "hub-kafka-bootstrap:9092"
    assert found.stored[0].topic == "my-offsets"


def test_a_connector_of_strimzi_is_read_with_its_worker(tmp_path: Path) -> None:
    (found,) = of(tmp_path, CONNECTOR, version=(4, 3))
    config = loaded(found)
    assert (config.hub.bootstrap_servers, config.hub.kafka) == (
        "hub:9092",
        {"security.protocol": "SSL"},
    )
    assert config.sources["eu"].tasks == 2
    assert found.stored[0].topic == "my-offsets"
    assert [it.reason for it in found.notes if it.decide] == ["is paused there, and runs here"]


@pytest.mark.parametrize(
    ("login", "wanted"),
    [
        (
            {
                "type": "tls",
                "certificateAndKey": {"secretName": "s", "certificate": "c", "key": "k"},
            },
            {"ssl.keystore.certificate.chain": "word", "ssl.keystore.key": "word"},
        ),
        (
            {
                "type": "plain",
                "username": "u",
                "passwordSecret": {"secretName": "s", "password": "p"},
            },
            {"sasl.mechanism": "PLAIN", "security.protocol": "SASL_SSL"},
        ),
        (
            {
                "type": "oauth",
                "clientId": "me",
                "tokenEndpointUri": "https://login.test/token",
                "clientSecret": {"secretName": "s", "key": "k"},
            },
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://login.test/token",
            },
        ),
    ],
)
def test_each_login_of_strimzi(
    tmp_path: Path, login: dict[str, Any], wanted: dict[str, str]
) -> None:
    resource = list(yaml.safe_load_all(MIRROR_MAKER))[1]
    resource["spec"]["clusters"][0]["authentication"] = login
    (found,) = of(tmp_path, yaml.safe_dump(resource))
    assert wanted.items() <= loaded(found).sources["eu"].kafka.items()
    assert "strimzisecrets" not in found.text


def test_resources_without_a_flow_say_what_they_are(tmp_path: Path) -> None:
    text = "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaTopic\nmetadata: {name: x}\n"
    with pytest.raises(ConfigError, match="its resources: KafkaTopic"):
        of(tmp_path, text)


def test_a_connect_cluster_that_is_not_there_is_named_without_its_password() -> None:
    address = "http://me:hidden@127.0.0.1:1/"
    with pytest.raises(ConfigError, match="is not to be had") as raised:
        finished(ImportRequest(clusters=[address]), Secrets.ENV)
    assert "hidden" not in str(raised.value)
