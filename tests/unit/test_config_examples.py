"""Each example in conf/ loads, is free of warnings it does not explain, and renders."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aggregator.config import Config, load, warnings
from aggregator.config.checks import problems
from aggregator.config.kafka_settings import jvm_settings, librdkafka_settings
from aggregator.config.librdkafka import to_librdkafka
from aggregator.config.render import to_yaml
from aggregator.config.stores import java_stores

CONF = Path(__file__).parents[2] / "conf"
ENV = {
    "AWS_ACCESS_KEY_ID": "id",
    "AWS_SECRET_ACCESS_KEY": "s3",
    "CLOUD_BOOTSTRAP": "cloud:9092",
    "CLOUD_API_KEY": "key",
    "CLOUD_API_SECRET": "secret",
    "OLD_PASSWORD": "old",
    "PRODUCTION_BROKERS": "prod-1:9093,prod-2:9093",
}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
FILES = {
    "secrets/hub.jaas": f'{SCRAM} username="hub" password="a";\n',
    "secrets/regions.jaas": f'{SCRAM} username="region" password="b";\n',
    "secrets/keystore-password": "changeit\n",
    "secrets/oauth-client-secret": "oauth\n",
    "plant-a/client.crt.pem": "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n",
    "plant-a/client.key.pem": "-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n",
}
NAMES = ("backup", "central-analytics", "cloud-onboarding", "migration")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The examples beside the files which they refer to."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for example in CONF.glob("*.yaml"):
        shutil.copy(example, tmp_path)
    return tmp_path


def example(folder: Path, name: str) -> Config:
    return load(folder / f"{name}.yaml", env=ENV)


def test_every_example_has_a_test_and_a_line_in_the_readme() -> None:
    assert sorted(path.stem for path in CONF.glob("*.yaml")) == list(NAMES)
    readme = (CONF / "README.md").read_text(encoding="utf-8")
    assert all(f"({name}.yaml)" in readme for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_loads_and_renders(name: str, folder: Path) -> None:
    config = example(folder, name)
    assert warnings(config) == []
    (folder / "again.yaml").write_text(to_yaml(config), encoding="utf-8")
    assert load(folder / "again.yaml", env={}) == config
    # As a reload checks it once more, with values as the types have made them.
    assert problems(config.model_dump()) == []
    for cluster in (config.hub, *config.sources.values()):
        assert to_librdkafka(cluster.kafka)[1] == []
        assert jvm_settings(cluster, "admin")["bootstrap.servers"] == cluster.bootstrap_servers


def test_central_analytics(folder: Path) -> None:
    config = example(folder, "central-analytics")
    assert config.sources["us"].start == "1767225600000"
    assert config.sources["us"].kafka == config.sources["eu"].kafka
    assert config.topics.rules_for("clicks").partitions == 48
    assert config.topics.rules_for("orders").partitions == 12
    hub = librdkafka_settings(config.hub)
    assert (hub["sasl.username"], hub["sasl.password"]) == ("hub", "a")


def test_cloud_onboarding(folder: Path) -> None:
    config = example(folder, "cloud-onboarding")
    assert config.topics.rename == "${cluster}.${topic}"
    assert config.topics.rules_for("plant-a.alarms").partition_by == "source_partition"
    hub = librdkafka_settings(config.hub)
    assert (hub["sasl.username"], hub["sasl.password"]) == ("key", "secret")


def test_migration(folder: Path) -> None:
    config = example(folder, "migration")
    assert config.sources["old"].max_bytes_per_second == 50_000_000
    assert librdkafka_settings(config.sources["old"])["sasl.username"] == "migration"


def test_backup(folder: Path) -> None:
    config = example(folder, "backup")
    assert config.topics.rename == "${topic}.backup"
    assert config.topics.rules_for("ledger.backup").sync_configs
    source = librdkafka_settings(config.sources["production"])
    assert source["sasl.oauthbearer.client.secret"] == "oauth"
    (store,) = java_stores(config.hub.kafka)
    assert (store.type, store.password) == ("PKCS12", "changeit")
