"""Imports the replicator executable: a config from its files and options. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.extras.importers.client_properties import address_of, take_client
from aggregator.extras.importers.configs import (
    COMMAND_LINE,
    Imported,
    SettingPlace,
    Settings,
    Sketch,
    Stored,
    alias_of,
    aliases_of,
)
from aggregator.extras.importers.connector_source import (
    GROUPS_COMMITTED,
    CopiedFlow,
    take_connector,
    tidy_names,
)
from aggregator.extras.importers.hub_drafts import (
    HUB_CLIENTS,
    Client,
    brokers_of,
    take_clients,
    without_hub,
)
from aggregator.extras.importers.shared_values import settle
from aggregator.features.connectors.mirror_maker_source import ADDRESS
from aggregator.model.errors import ConfigError, Problem

EXECUTABLE = "replicator"
CONFLUENT = "io.confluent.connect.replicator.ReplicatorSourceConnector"
SOURCE, HUB = f"src.kafka.{ADDRESS}", f"dest.kafka.{ADDRESS}"
"""Where the file of a replication may say the addresses."""
OPTIONS: Mapping[str, str] = {
    "whitelist": "topic.whitelist",
    "blacklist": "topic.blacklist",
    "topic.whitelist": "topic.whitelist",
    "topic.blacklist": "topic.blacklist",
}
"""Options of the executable that are words of its connector under another name."""
ALONE: Mapping[str, str] = {
    "cluster.threads": "see sources.<alias>.tasks",
    "confluent.license": "no licence is needed",
    "consumer.monitoring.config": "what is copied is seen on the dashboard and on /metrics",
    "producer.monitoring.config": "what is copied is seen on the dashboard and on /metrics",
}
"""Options of the executable without effect."""


@dataclass(frozen=True, slots=True)
class Executable:
    """A call of the executable: its files, and its options by their names without dashes.

    `known` are the aliases of an earlier start.
    """

    cluster_id: str
    consumer: Settings | None
    producer: Settings | None
    replication: Settings | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    alias: str = ""
    group: str = ""
    known: Sequence[str] = ()


def import_executable(call: Executable) -> Imported:
    """The config of such a call; ConfigError with every reason why none comes of it."""
    draft = Sketch("hub", EXECUTABLE)
    name = alias_of(call.cluster_id or EXECUTABLE)
    draft.put(("name",), name, SettingPlace(COMMAND_LINE, "--cluster.id"))
    for option, found in (("consumer", call.consumer), ("producer", call.producer)):
        if found is None:
            reason, hint = f"no {option} is given", f"give --{option}.config FILE"
            draft.problems.append(Problem(f"{option}.config", reason, hint))
    config: dict[str, str] = {"connector.class": CONFLUENT}
    places: dict[str, SettingPlace] = {}

    def add(key: str, value: str, where: SettingPlace) -> None:
        config[key], places[key] = value, where

    if call.replication is not None:
        for key, value in call.replication.values.items():
            add(key, value, call.replication.where(key))
    for name, value in call.options.items():
        where = SettingPlace(COMMAND_LINE, f"--{name}")
        if name in ALONE:
            draft.note(where, ALONE[name])
        else:
            add(OPTIONS.get(name, name), value, where)
    where_of, said = _where_of(places), config.get(SOURCE, "")
    placed = [(it, address_of(it)[0] or said) for it in [call.consumer] if it is not None]
    alias = next(iter(aliases_of([call.alias], placed, call.known)), "origin")
    if call.consumer is not None:
        address = _address(draft, call.consumer, said, where_of(SOURCE))
        config[SOURCE], places[SOURCE] = address
        if address[0]:
            draft.put(("sources", alias, "bootstrap_servers"), *address)
        take_client(draft, call.consumer, ("sources", alias), "consumer")
    if call.producer is not None:
        address = _address(draft, call.producer, config.get(HUB, ""), where_of(HUB))
        if address[0]:
            draft.put(("hub", "bootstrap_servers"), *address)
        take_client(draft, call.producer, ("hub",), "producer")
    of_hub: Client = {}
    for key, value in config.items():
        for prefix in HUB_CLIENTS:
            if key.startswith(prefix) and key != f"{prefix}{ADDRESS}":
                of_hub[key.removeprefix(prefix)] = (value, where_of(key))
    take_clients(draft, alias, of_hub, {})
    take_connector(draft, CopiedFlow(alias, without_hub(config), where_of))
    settle(draft)
    draft.stored.append(committed(alias, call.group or config.get(GROUPS_COMMITTED, "")))
    _check_hub(draft)
    tidy_names(draft)
    return draft.done()


def committed(alias: str, group: str) -> Stored:
    """The consumer group in which a replicator has committed, if it is known."""
    if group:
        return Stored(alias, group=group)
    refused = (
        "its own offsets have no documented form; it commits to a consumer group at the source "
        f"(offset.topic.commit): name that one with --group, or by {GROUPS_COMMITTED}"
    )
    return Stored(alias, refused=refused)


def _address(
    draft: Sketch, client: Settings, said: str, where: SettingPlace
) -> tuple[str, SettingPlace]:
    """The address of a cluster, from the file of its client, or else as the replication says it.

    Where these are two clusters, one has to be decided on.
    """
    address, found = address_of(client)
    if not said.strip():
        return address, found
    if not address:
        return said.strip(), where
    if not brokers_of(said) & brokers_of(address):
        reason = (
            f"is {said.strip()}, and {found} is {address}: the latter counts here; if both are one "
            "cluster, all is well"
        )
        draft.note(where, reason, decide=True)
    return address, found


def _check_hub(draft: Sketch) -> None:
    if "bootstrap_servers" not in draft.tree.get("hub", {}):
        reason = "the address of the hub is in none of these files"
        hint = "give it as bootstrap.servers in the file of --producer.config"
        draft.problems.append(Problem("hub.bootstrap_servers", reason, hint))
    if draft.problems:
        raise ConfigError(draft.problems)


def _where_of(places: Mapping[str, SettingPlace]) -> Callable[[str], SettingPlace]:
    return lambda key: places.get(key, SettingPlace(COMMAND_LINE, key))
