"""Imports MirrorMaker 1: a config from its consumers, its producer and its options. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aggregator.config.values import patterns
from aggregator.extras.importers import mirror_maker_1_keys as words
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
    is_true,
    seconds_of,
)
from aggregator.extras.importers.connector_source import say_of_programs
from aggregator.model.errors import ConfigError, Problem

TOOL = "MirrorMaker 1"
NO_PARTS = "MirrorMaker 1 took no configs over: topics keep what they have"


@dataclass(frozen=True, slots=True)
class MirrorMaker1:
    """A call of it: the files of `--consumer.config`, that of `--producer.config`, the others.

    `options` are by their names without dashes; `aliases` name the sources, in order. `known` are
    the aliases of an earlier start.
    """

    consumers: Sequence[Settings]
    producer: Settings | None
    options: Mapping[str, str] = field(default_factory=dict)
    aliases: Sequence[str] = ()
    known: Sequence[str] = ()


def import_mm1(call: MirrorMaker1) -> Imported:
    """The config of such a call; ConfigError with every reason why none comes of it."""
    draft = Sketch("hub", TOOL)
    groups = [it.values["group.id"] for it in call.consumers if it.values.get("group.id")]
    name = alias_of(groups[0] if groups else "mirror-maker")
    draft.put(
        ("name",), name, SettingPlace(call.consumers[0].file if call.consumers else "", "group.id")
    )
    _take_hub(draft, call)
    if not call.consumers:
        reason, hint = "no consumer is given", "give --consumer.config FILE, once for each source"
        draft.problems.append(Problem("consumer.config", reason, hint))
    placed = [(consumer, address_of(consumer)[0]) for consumer in call.consumers]
    aliases = aliases_of(call.aliases, placed, call.known)
    for consumer, alias in zip(call.consumers, aliases, strict=True):
        _take_source(draft, call, consumer, alias)
    _take_options(draft, call, aliases)
    draft.put(("topics", "sync_configs"), False, SettingPlace(TOOL, NO_PARTS))
    if draft.problems:
        raise ConfigError(draft.problems)
    return draft.done()


def include_of(text: str) -> list[str]:
    """The patterns of a whitelist or blacklist: a comma means "or"; quotes and blanks go."""
    return patterns(text.strip().strip("\"'").replace(" ", ""))


def _take_hub(draft: Sketch, call: MirrorMaker1) -> None:
    if call.producer is None:
        reason, hint = "no producer is given", "give --producer.config FILE: where to write"
        draft.problems.append(Problem("producer.config", reason, hint))
        return
    address, where = address_of(call.producer)
    if address:
        draft.put(("hub", "bootstrap_servers"), address, where)
    else:
        reason, hint = "the hub's address is not given", "host:port, or several"
        draft.problems.append(Problem(str(where), reason, hint))
    take_client(draft, call.producer, ("hub",), "producer")


def _take_source(draft: Sketch, call: MirrorMaker1, consumer: Settings, alias: str) -> None:
    at = ("sources", alias)
    address, where = address_of(consumer)
    if address:
        draft.put((*at, "bootstrap_servers"), address, where)
    else:
        reason, hint = "the address of the source is not given", "host:port of its brokers"
        draft.problems.append(Problem(str(where), reason, hint))
    include = call.options.get("whitelist") or call.options.get("include") or ""
    key = "--whitelist" if "whitelist" in call.options else "--include"
    draft.put((*at, "topics", "include"), include_of(include), SettingPlace(COMMAND_LINE, key))
    exclude = call.options.get("blacklist") or call.options.get("exclude") or ""
    if include_of(exclude):
        key = "--blacklist" if "blacklist" in call.options else "--exclude"
        draft.put((*at, "topics", "exclude"), include_of(exclude), SettingPlace(COMMAND_LINE, key))
    if not include_of(include):
        if include_of(exclude):
            # The old consumer took all topics but these.
            draft.put((*at, "topics", "include"), [".*"], SettingPlace(COMMAND_LINE, "--blacklist"))
        elif alias == next(iter(draft.tree.get("sources", {alias: 0}))):
            reason, hint = "no topic is named", 'give --whitelist REGEX, or --include; ".*" is all'
            draft.problems.append(Problem("--whitelist", reason, hint))
    topics = draft.tree["sources"][alias]["topics"]
    say_of_programs(draft, draft.came[(*at, "topics", "include")], topics)
    if "auto.offset.reset" not in consumer.values:
        # So it was there, and with `earliest` all of the past would be copied once more.
        draft.put((*at, "start"), "latest", consumer.where("auto.offset.reset"))
        reason = "is not given: Kafka's default is latest, so it is start: latest here"
        draft.note(consumer.where("auto.offset.reset"), reason, taken=True)
    take_client(draft, consumer, at, "consumer")
    group = consumer.values.get("group.id", "").strip()
    refused = "" if group else f"{consumer.file} has no group.id, so nothing was committed"
    if consumer.values.get("offsets.storage", "").strip() == "zookeeper" or (
        "zookeeper.connect" in consumer.values and "bootstrap.servers" not in consumer.values
    ):
        refused = "its positions are in ZooKeeper, which is not read here"
    draft.stored.append(Stored(alias, group=group, refused=refused))


def _take_options(draft: Sketch, call: MirrorMaker1, aliases: Sequence[str]) -> None:
    for name, value in call.options.items():
        where = SettingPlace(COMMAND_LINE, f"--{name}")
        if name in ("whitelist", "include", "blacklist", "exclude"):
            continue
        if name == "num.streams":
            _take_streams(draft, value, where, aliases)
        elif name == "abort.on.send.failure":
            if is_true(value):
                draft.put(("supervision", "failure"), "abort", where)
            else:
                draft.note(where, "a record is never dropped; what fails is tried again")
        elif name == "offset.commit.interval.ms":
            _take_interval(draft, value, where)
        elif name == "message.handler":
            draft.note(where, words.HANDLER, decide=True)
        else:
            draft.note(where, words.MM1_OPTIONS.get(name, "is not known"))


def _take_streams(draft: Sketch, value: str, where: SettingPlace, aliases: Sequence[str]) -> None:
    if not value.strip().isdigit() or int(value) < 1:
        draft.problems.append(Problem(where.key, f"'{value}' is no number above 0"))
    elif int(value) == 1:
        draft.note(where, "is the default there; here as many tasks as the cores suggest")
    else:
        for alias in aliases:
            draft.put(("sources", alias, "tasks"), int(value), where)


def _take_interval(draft: Sketch, value: str, where: SettingPlace) -> None:
    length = seconds_of(value)
    if length is None or not 1_000 <= int(value) <= 3_600_000:
        draft.note(where, "see stream.checkpoint_interval, which is 1s to 1h")
    else:
        draft.put(("stream", "checkpoint_interval"), length, where)
