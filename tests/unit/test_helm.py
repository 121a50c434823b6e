"""The Helm chart: what it makes is valid, starts what it should, and refuses what cannot work."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from aggregator import __version__
from aggregator.config import load_text
from aggregator.plan.lanes.slots import slots_of
from support.helm import CHART, helm, rendered
from support.kubernetes import problems

DOCKER = CHART.parent
HUB = "config.hub.bootstrap_servers=hub:9092"
SOURCE = (
    "config.sources.eu.bootstrap_servers=eu:9092",
    "config.sources.eu.topics.include=orders",
)
ON_A_DISK = (HUB, *SOURCE)
ON_A_STORE = (*ON_A_DISK, "state.enabled=false", "config.checkpoint.path=s3://bucket/state")
WITH_EXECUTORS = (
    *ON_A_DISK,
    "executors.enabled=true",
    "executors.instances=3",
    "networkPolicy.enabled=true",
)
VALUE = "long-enough-for-a-token"
ALL_OF_IT = (
    *ON_A_DISK,
    "monitoring.podMonitor=true",
    "monitoring.alerts=true",
    "monitoring.labels.release=prometheus",
    "monitoring.tlsConfig.ca.secret.name=ca",
    "monitoring.tlsConfig.ca.secret.key=ca.crt",
    "monitoring.tlsConfig.serverName=aggregator",
    "networkPolicy.enabled=true",
    "networkPolicy.from[0].namespaceSelector.matchLabels.team=a",
    "networkPolicy.egress[0].ports[0].port=9092",
    "env[0].name=PASSWORD",
    "env[0].valueFrom.secretKeyRef.name=eu",
    "env[0].valueFrom.secretKeyRef.key=password",
    "envFrom[0].secretRef.name=more",
    "volumes[0].name=ca",
    "volumes[0].secret.secretName=ca",
    "volumeMounts[0].name=ca",
    "volumeMounts[0].mountPath=/ca",
    "imagePullSecrets[0].name=pull",
    "serviceAccount.name=reader",
    "podAnnotations.a=b",
    "nodeSelector.disk=fast",
    "tolerations[0].operator=Exists",
    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    ".nodeSelectorTerms[0].matchExpressions[0].key=disk",
    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    ".nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
    "state.storageClassName=shared",
    "config.api.tls.certificate=/ca/tls.crt",
)


def objects(*values: str) -> dict[str, dict[str, Any]]:
    """What the chart makes of these values, by kind."""
    found = [it for it in yaml.safe_load_all(rendered(values, "central")) if it is not None]
    assert len({it["kind"] for it in found}) == len(found)
    return {it["kind"]: it for it in found}


def container_of(made: dict[str, dict[str, Any]]) -> dict[str, Any]:
    (container,) = made["Deployment"]["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


@pytest.mark.parametrize(
    "values",
    [ON_A_DISK, ON_A_STORE, WITH_EXECUTORS, ALL_OF_IT],
    ids=["disk", "store", "executors", "all"],
)
def test_kubernetes_takes_what_it_makes(values: tuple[str, ...]) -> None:
    sets = [word for value in values for word in ("--set", value)]
    linted = helm("lint", "--strict", str(CHART), *sets)
    assert linted.returncode == 0, linted.stdout
    for kind, each in objects(*values).items():
        assert [problems(each, version) for version in ("1.32", "1.37")] == [[], []], kind


FREE = ("annotations", "labels", "matchLabels")
"""Fields whose keys are the user's own."""


def misspelt(thing: Any) -> Iterator[Any]:
    """A value with one field misspelt, for each field in it; a list by its first item."""
    if isinstance(thing, list):
        yield from ([bad] for bad in misspelt(thing[0]))
    elif isinstance(thing, dict):
        for name, value in thing.items():
            others = {word: it for word, it in thing.items() if word != name}
            yield {**others, f"{name}x": value}
            if name not in FREE:
                yield from ({**others, name: bad} for bad in misspelt(value))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("PodMonitor", ("credentials", "replacement", "serverName")),
        ("PrometheusRule", ("alert", "expr", "for")),
    ],
)
def test_the_prometheus_operator_refuses_a_misspelt_field(
    kind: str, fields: tuple[str, ...]
) -> None:
    made = objects(*ALL_OF_IT)[kind]
    wrong = [{**made, "spec": spec} for spec in misspelt(made["spec"])]
    assert [each for each in wrong if not problems(each, "1.37")] == []
    # Those deep inside were among them.
    assert all(f"'{it}x'" in str(wrong) for it in fields)
    assert problems({**made, "metadata": {**made["metadata"], "names": "a"}}, "1.37") != []


@pytest.mark.parametrize(
    "bad", [{"interval": "15"}, {"scheme": "ftp"}, {"port": 8083}, {"relabelings": {}}], ids=str
)
def test_the_prometheus_operator_refuses_a_value_that_a_field_cannot_have(
    bad: dict[str, Any],
) -> None:
    made = objects(*ALL_OF_IT)["PodMonitor"]
    (endpoint,) = made["spec"]["podMetricsEndpoints"]
    spec = {**made["spec"], "podMetricsEndpoints": [{**endpoint, **bad}]}
    assert problems({**made, "spec": spec}, "1.37") != []


def test_the_plain_manifest_is_the_chart_with_a_config_map_of_ones_own() -> None:
    plain = (DOCKER / "kubernetes.yaml").read_text("utf-8")
    head, _, body = plain.partition("---\n")
    assert all(line.startswith("#") for line in head.splitlines())
    assert "---\n" + body == rendered(["existingConfigMap=aggregator"])


def test_the_config_is_the_users_with_what_the_chart_knows(tmp_path: Path) -> None:
    made = objects(*ON_A_DISK)
    text = made["ConfigMap"]["data"]["aggregator.yaml"]
    config = load_text(text.replace("${env:", "").replace("_TOKEN}", "-token-of-a-kind"))
    assert (config.api.listen, config.checkpoint.path) == ("0.0.0.0:8083", "/state")
    assert list(config.sources) == ["eu"]
    assert "${env:READ_TOKEN}" in text
    volumes = made["Deployment"]["spec"]["template"]["spec"]["volumes"]
    assert {"name": "config", "configMap": {"name": "central"}} in volumes
    # A text of a file is the same as values.
    (tmp_path / "aggregator.yaml").write_text(text)
    done = helm("template", "a", str(CHART), "--set-file", f"config={tmp_path}/aggregator.yaml")
    assert done.returncode == 0, done.stderr
    again = [it for it in yaml.safe_load_all(done.stdout) if it["kind"] == "ConfigMap"]
    assert [it["data"]["aggregator.yaml"] for it in again] == [text]
    on_a_store = objects(*ON_A_STORE)
    assert "path: s3://bucket/state" in on_a_store["ConfigMap"]["data"]["aggregator.yaml"]
    assert "PersistentVolumeClaim" not in on_a_store


def test_what_selects_the_pods_finds_them_and_their_port() -> None:
    made = objects(*ALL_OF_IT)
    labels = made["Deployment"]["spec"]["template"]["metadata"]["labels"]
    selectors = [
        made["Deployment"]["spec"]["selector"]["matchLabels"],
        made["Service"]["spec"]["selector"],
        made["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        made["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
        made["PodMonitor"]["spec"]["selector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= labels.items()
    container = container_of(made)
    names = {it["name"] for it in container["ports"]}
    (endpoint,) = made["PodMonitor"]["spec"]["podMetricsEndpoints"]
    assert {endpoint["port"], made["Service"]["spec"]["ports"][0]["targetPort"]} == names
    # With api.tls all of them speak it.
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["serverName"] == "aggregator"
    probes = [container[it] for it in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {it["httpGet"]["scheme"] for it in probes} == {"HTTPS"}


def test_executors_are_started_by_the_pod_and_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made = objects(*WITH_EXECUTORS)
    container = container_of(made)
    # What the pod is given, the config refers to.
    for each in container["env"]:
        monkeypatch.setenv(each["name"], {"POD_IP": "10.0.0.1"}.get(each["name"], VALUE))
    config = load_text(made["ConfigMap"]["data"]["aggregator.yaml"])
    conf = config.spark.conf
    assert config.spark.master.startswith("k8s://")
    assert (conf["spark.driver.host"], conf["spark.kubernetes.driver.pod.name"]) == (
        "10.0.0.1",
        VALUE,
    )
    assert slots_of(config.spark.master, conf, None) == 3 * 32
    # The settings are those of the Spark that is started, which has an image of its version.
    jar = (
        Path(pyspark.__file__).parent / "jars" / f"spark-kubernetes_2.13-{pyspark.__version__}.jar"
    )
    known = zipfile.ZipFile(jar).read("org/apache/spark/deploy/k8s/Config$.class")
    prefix = "spark.kubernetes.executor.label."
    for name in (it for it in conf if it.startswith("spark.kubernetes.")):
        assert (prefix if name.startswith(prefix) else name).encode() in known, name
    assert conf["spark.kubernetes.container.image"].endswith(f":{pyspark.__version__}")
    # They may be started, and may reach its ports; and none of them is taken for an instance.
    account = made["Deployment"]["spec"]["template"]["spec"]["serviceAccountName"]
    assert account == made["ServiceAccount"]["metadata"]["name"]
    assert [it["name"] for it in made["RoleBinding"]["subjects"]] == [account]
    assert made["RoleBinding"]["roleRef"]["name"] == made["Role"]["metadata"]["name"]
    ports = {str(it["containerPort"]): it["name"] for it in container["ports"]}
    _, opened = made["NetworkPolicy"]["spec"]["ingress"]
    wanted = {ports[conf[f"spark.driver.{it}"]] for it in ("port", "blockManager.port")}
    assert {it["port"] for it in opened["ports"]} == wanted
    label = conf[f"{prefix}app"]
    assert opened["from"] == [{"podSelector": {"matchLabels": {"app": label}}}]
    assert made["Deployment"]["spec"]["selector"]["matchLabels"]["app"] != label
    # Another account than one's own is not made.
    named = objects(*WITH_EXECUTORS, "serviceAccount.name=reader")
    assert "ServiceAccount" not in named
    assert [it["name"] for it in named["RoleBinding"]["subjects"]] == ["reader"]


def test_the_alerts_are_those_of_the_other_examples_for_the_job_of_the_release() -> None:
    made = objects(*ALL_OF_IT)
    (endpoint,) = made["PodMonitor"]["spec"]["podMetricsEndpoints"]
    jobs = [it["replacement"] for it in endpoint["relabelings"] if it["targetLabel"] == "job"]
    assert jobs == ["central"]
    text = (DOCKER / "prometheus" / "rules.yml").read_text("utf-8")
    rules = yaml.safe_load(text.replace('{job="aggregator"}', '{job="central"}'))
    assert made["PrometheusRule"]["spec"] == rules != yaml.safe_load(text)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((), "config.hub is missing: set config"),
        ((HUB, "state.enabled=false"), "config.checkpoint.path is missing"),
        ((HUB, "config.api.listen=0.0.0.0:9000"), "asked on port 8083; leave it out"),
        (("config=hub: [",), "config is no YAML: "),
        ((HUB, "replica=3"), "replica"),
        ((HUB, "state.size=much"), "state.size"),
        ((HUB, "state.size=5K"), "state.size"),
        ((HUB, "state.accessMode=ReadWriteOncePod"), "set replicas to 1"),
        ((HUB, "config.api.tls.client_ca=/ca/ca.crt"), "probes of Kubernetes have no certificate"),
    ],
)
def test_what_cannot_work_is_refused_with_the_value_that_is_wrong(
    values: tuple[str, ...], words: str
) -> None:
    sets = [word for value in values for word in ("--set", value)]
    done = helm("template", "central", str(CHART), *sets)
    assert done.returncode != 0
    assert words in done.stderr


def test_its_versions_are_the_packages() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert {chart["version"], chart["appVersion"]} == {__version__}
