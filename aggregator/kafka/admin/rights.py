"""Which rights the brokers give us, without reading or writing a record: part of `check`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError
from confluent_kafka.admin import NewTopic

from aggregator.config.schema import Config, SourceConfig
from aggregator.kafka.admin.admin import ClusterAdmin
from aggregator.kafka.admin.client_errors import AUTHORIZATION, code_of, text_of
from aggregator.kafka.admin.pool import HUB
from aggregator.kafka.admin.topic_facts import Described
from aggregator.plan.topics.naming import naming_of, topic_name_problem
from aggregator.plan.topics.selection import Selection

SOURCE_NEEDS = ("DESCRIBE", "READ", "DESCRIBE_CONFIGS")
HUB_NEEDS = ("DESCRIBE", "READ", "WRITE", "DESCRIBE_CONFIGS")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing checked at one cluster: whether it is well, what was found, what to do."""

    cluster: str
    name: str
    ok: bool
    detail: str
    hint: str = ""


def topic_rights(
    alias: str, described: Described, needs: Iterable[str], who: str
) -> list[CheckResult]:
    """A result per topic: what of `needs` the brokers do not allow us; `who` is who we are."""
    results = []
    needs = list(needs)
    for name, reason in described.failed.items():
        missing = ", ".join(needs) if "authoriz" in reason else "DESCRIBE"
        results.append(_refused(alias, f"rights on {name}", reason, missing, f"topic {name}", who))
    for name in described.topics:
        allowed = described.operations.get(name, frozenset())
        words = ", ".join(need for need in needs if need not in allowed)
        check = f"rights on {name}"
        if not allowed:
            results.append(CheckResult(alias, check, True, "not reported by the brokers"))
        elif words:
            found = f"without {words}"
            results.append(_refused(alias, check, found, words, f"topic {name}", who))
        else:
            results.append(CheckResult(alias, check, True, ", ".join(needs)))
    return results


def hidden(
    source: SourceConfig, seen: Iterable[str], admin: ClusterAdmin, timeout: float
) -> Described:
    """Topics that are named and that we may not even see; a regex names none."""
    selection = Selection.of(source.topics)
    named = {name for name in selection.literals() if selection.matches(name)}
    unseen = sorted(named - set(seen))
    found = admin.describe_topics(unseen, timeout)
    return Described({}, {name: it for name, it in found.failed.items() if "authoriz" in it})


def create_rights(
    config: Config, names: Iterable[str], admin: ClusterAdmin, timeout: float, who: str
) -> CheckResult:
    """Whether hub topics may be created: the hub is asked to, and not to do it.

    A right may be given for names alone, so it is asked about names that may come: `names`, and
    those that topics which are named in the config would get.
    """
    wanted = sorted({*names, *_named_topics(config)})
    allowed = admin.cluster_operations(timeout)
    refused = [] if "CREATE" in allowed else _not_to_create(wanted, admin, timeout)
    check = "create topics"
    if refused:
        which = f"topic {', '.join(refused)}, on a prefix of it, or on the cluster,"
        return _refused(HUB, check, "without CREATE", "CREATE", which, who, "or create them")
    if "CREATE" in allowed:
        return CheckResult(HUB, check, True, "CREATE on the cluster")
    if allowed and not wanted:
        which = "the cluster, or on the prefix of the topics,"
        return _refused(HUB, check, "without CREATE", "CREATE", which, who, "or create them")
    return CheckResult(HUB, check, True, f"CREATE on {', '.join(wanted) or 'what is not known'}")


def group_rights(
    alias: str, group: str, admin: ClusterAdmin, timeout: float, who: str
) -> CheckResult:
    """Whether positions may be committed to a source as those of a group."""
    check = f"rights on group {group}"
    futures = admin.client.describe_consumer_groups(
        [group], include_authorized_operations=True, request_timeout=timeout
    )
    answer = admin.wait(futures, timeout)[group]
    if isinstance(answer, Exception):
        refused = code_of(answer) == KafkaError.GROUP_AUTHORIZATION_FAILED
        if refused:
            return _refused(alias, check, text_of(answer), "READ", f"group {group}", who)
        return CheckResult(alias, check, True, "the group is not there yet")
    allowed = {it.name for it in answer.authorized_operations or ()}
    if allowed and "READ" not in allowed:
        return _refused(alias, check, "without READ", "READ", f"group {group}", who)
    return CheckResult(alias, check, True, "READ" if allowed else "not reported by the brokers")


def _not_to_create(names: list[str], admin: ClusterAdmin, timeout: float) -> list[str]:
    if not names:
        return []
    futures = admin.client.create_topics(
        [NewTopic(name, 1, -1) for name in names],
        request_timeout=timeout,
        validate_only=True,
    )
    answers: Mapping[str, object] = admin.wait(futures, timeout)
    return [name for name, it in answers.items() if code_of(it) in AUTHORIZATION]


def _named_topics(config: Config) -> Iterable[str]:
    for alias, source in config.sources.items():
        for topic in Selection.of(source.topics).literals():
            name = naming_of(config, alias).of(topic).name
            if topic_name_problem(name) is None:
                yield name


def _refused(
    alias: str, check: str, detail: str, rights: str, resource: str, who: str, also: str = ""
) -> CheckResult:
    to = f" to {who}" if who else ""
    hint = f"allow {rights} on {resource}{to}" + (f", {also}" if also else "")
    return CheckResult(alias, check, False, detail, hint)
